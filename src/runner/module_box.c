/* SPDX-License-Identifier: Apache-2.0 */
/* _husk: what a new box or context does to itself before it takes code; see module.h. */
#define PY_SSIZE_T_CLEAN
#include "runner/module.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/rand.h"
#include "box/setup.h"
#include "runner/abort.h"
#include "runner/control.h"

#define STDIO 3

/* libc's generators have the same state in every box until they are reseeded. */
void module_seed_libc(void)
{
    unsigned seed;

    rand_bytes(&seed, sizeof(seed));
    srand(seed);
    srand48((long)seed);
}

int module_mute(int saved[STDIO])
{
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0) {
        return -errno;
    }
    for (int i = 0; i < STDIO; i++) {
        if (saved != NULL) {
            saved[i] = fcntl(i, F_DUPFD_CLOEXEC, BOX_CONTROL_FD + 1);
        }
        if ((saved != NULL && saved[i] < 0) || dup3(null, i, 0) < 0) {
            return -errno;
        }
    }
    return 0;
}

int module_unmute(int saved[STDIO])
{
    for (int i = 0; i < STDIO; i++) {
        if (dup3(saved[i], i, 0) < 0) {
            return -errno;
        }
        close(saved[i]);
    }
    return 0;
}

int module_ready(void)
{
    /* User code may inspect itself: debuggers, /proc/self. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0) {
        return -errno;
    }
    if (getpid() == 1) {
        abort_report(module_run.token);
    }
    return control_send_ready(BOX_CONTROL_FD);
}

static PyObject *none_or_errno(int r)
{
    if (r < 0) {
        return module_errno(r);
    }
    Py_RETURN_NONE;
}

PyObject *husk_ready(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    return none_or_errno(module_ready());
}

PyObject *husk_mute(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    return none_or_errno(module_mute(NULL));
}

PyObject *husk_seed_libc(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    module_seed_libc();
    Py_RETURN_NONE;
}
