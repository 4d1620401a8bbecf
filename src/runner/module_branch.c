/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _husk: a copy of a context, with all its variables; see module.h.
 *
 * PID 1 must be the copy's parent, to report how it ends. So a process between us and the copy
 * forks it and exits at once. That one shares our memory (vfork): copying the page tables of a
 * large context twice would be most of the work.
 */
#define PY_SSIZE_T_CLEAN
#include "runner/module.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box/setup.h"
#include "runner/control.h"
#include "runner/interrupt.h"

/*
 * 1 in the copy, 0 or -errno here. By libc's fork() and with CPython's hooks around it: unlike a
 * zygote, a context may have threads.
 */
static int fork_copy(void)
{
    static volatile int error; /* the process between writes it into our memory */

    error = 0;
    PyOS_BeforeFork();
    pid_t between = vfork(); /* NOLINT: it does nothing but fork, and that on purpose */
    if (between == 0) {
        pid_t copy = fork(); /* NOLINT: as above */
        if (copy == 0) {
            PyOS_AfterFork_Child();
            return 1;
        }
        error = copy < 0 ? errno : 0;
        _exit(0);
    }
    if (between < 0) {
        error = errno;
    }
    PyOS_AfterFork_Parent();
    while (between > 0 && waitpid(between, NULL, 0) < 0 && errno == EINTR) {
    }
    return -error;
}

/* From now on this process listens on another control socket. */
static int adopt(int fd)
{
    if (dup3(fd, BOX_CONTROL_FD, O_CLOEXEC) < 0) {
        return -errno;
    }
    setpgid(0, 0); /* a signal for the original context is not for this one */
    interrupt_attach();
    return 0;
}

/* branch(fd): True in the copy, which answers there. */
PyObject *husk_branch(PyObject *self, PyObject *args)
{
    int fd;

    (void)self;
    if (!PyArg_ParseTuple(args, "i", &fd)) {
        return NULL;
    }
    int copied = fork_copy();
    if (copied < 0) {
        control_send_refused(fd, -copied);
    }
    int r = copied > 0 ? adopt(fd) : 0;
    close(fd);
    return r < 0 ? module_errno(r) : PyBool_FromLong(copied > 0);
}
