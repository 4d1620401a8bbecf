/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _husk: a copy of a context, with all its variables; see module.h.
 *
 * PID 1 must be the copy's parent, to tell how it ends. So somebody between us and the copy forks
 * it and exits at once. That one shares our memory (vfork): to copy the page tables of a large
 * context twice would be most of the work.
 */
#define PY_SSIZE_T_CLEAN
#include "runner/module.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box/setup.h"
#include "runner/interrupt.h"

/*
 * True in the copy. By libc's fork() and with CPython's hooks around it: unlike a zygote, a context
 * may have threads.
 */
static bool fork_copy(void)
{
    PyOS_BeforeFork();
    pid_t between = vfork(); /* NOLINT: it does nothing but fork, and that on purpose */
    if (between == 0) {
        if (fork() == 0) { /* NOLINT: as above */
            PyOS_AfterFork_Child();
            return true;
        }
        _exit(0); /* without a copy as well: whoever asked for it sees its socket close */
    }
    PyOS_AfterFork_Parent();
    while (between > 0 && waitpid(between, NULL, 0) < 0 && errno == EINTR) {
    }
    return false;
}

/* From now on this process listens on another control socket. */
static int adopt(int fd)
{
    if (dup3(fd, BOX_CONTROL_FD, O_CLOEXEC) < 0) {
        return -errno;
    }
    setpgid(0, 0); /* a signal for the context that it came from is not meant for this one */
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
    bool is_copy = fork_copy();
    int r = is_copy ? adopt(fd) : 0;
    close(fd);
    return r < 0 ? module_errno(r) : PyBool_FromLong(is_copy);
}
