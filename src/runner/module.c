/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _husk: the runner as a CPython extension, built once against the stable ABI for every CPython from 3.9 on.
 *
 * A thin skin over zygote.c, session.c and control.c. Isolation happens in C before any of this
 * returns into Python.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/rand.h"
#include "box/setup.h"
#include "runner/abort.h"
#include "runner/control.h"
#include "runner/hotset.h"
#include "runner/module.h"
#include "runner/remap.h"
#include "runner/rawfork.h"
#include "runner/session.h"
#include "runner/zygote.h"

#define STDIO 3

static PyObject *husk_freeze(PyObject *self, PyObject *args)
{
    struct remap_stats stats;

    (void)self;
    (void)args;
    int r = remap_freeze(&stats);
    if (r < 0) {
        return module_errno(r);
    }
    return Py_BuildValue("nn", (Py_ssize_t)stats.regions, (Py_ssize_t)stats.bytes);
}

static PyObject *husk_zygote(PyObject *self, PyObject *args)
{
    static struct zygote_child child; /* not on the stack: nothing above this frame may move */

    (void)self;
    (void)args;
    zygote_serve(&child);
    hotset_touch();
    return Py_BuildValue("Ii", (unsigned)child.mode, child.warm ? 1 : 0);
}

/* True in the rehearsal child. */
static PyObject *husk_rehearse(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    return PyBool_FromLong(hotset_rehearse());
}

static PyObject *husk_hotset_save(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    hotset_save();
}

static PyObject *husk_broken(PyObject *self, PyObject *args)
{
    const char *message;

    (void)self;
    if (!PyArg_ParseTuple(args, "s", &message)) {
        return NULL;
    }
    zygote_broken(message);
}

static PyObject *husk_session(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    session_serve();
    Py_RETURN_NONE;
}

static PyObject *husk_ready(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0) {
        return module_errno(-errno);
    }
    if (getpid() == 1) {
        abort_report(module_run.token);
    }
    int r = control_send_ready(BOX_CONTROL_FD);
    if (r < 0) {
        return module_errno(r);
    }
    Py_RETURN_NONE;
}

/* Replaces stdin, stdout and stderr by /dev/null; returns the old ones, or -1 each when they are dropped. */
static PyObject *husk_mute(PyObject *self, PyObject *args)
{
    int keep;
    int saved[STDIO] = {-1, -1, -1};

    (void)self;
    if (!PyArg_ParseTuple(args, "p", &keep)) {
        return NULL;
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < STDIO; i++) {
        if (keep) {
            saved[i] = fcntl(i, F_DUPFD_CLOEXEC, BOX_CONTROL_FD + 1);
        }
        if (null < 0 || dup3(null, i, 0) < 0) {
            return module_errno(-errno);
        }
    }
    close(null);
    return Py_BuildValue("iii", saved[0], saved[1], saved[2]);
}

static PyObject *husk_unmute(PyObject *self, PyObject *args)
{
    int saved[STDIO];

    (void)self;
    if (!PyArg_ParseTuple(args, "(iii)", &saved[0], &saved[1], &saved[2])) {
        return NULL;
    }
    for (int i = 0; i < STDIO; i++) {
        if (dup3(saved[i], i, 0) < 0) {
            return module_errno(-errno);
        }
        close(saved[i]);
    }
    Py_RETURN_NONE;
}

/* From now on this process listens on another control socket: it is a branch. */
static PyObject *husk_adopt(PyObject *self, PyObject *args)
{
    int fd;

    (void)self;
    if (!PyArg_ParseTuple(args, "i", &fd)) {
        return NULL;
    }
    if (dup3(fd, BOX_CONTROL_FD, O_CLOEXEC) < 0) {
        return module_errno(-errno);
    }
    close(fd);
    Py_RETURN_NONE;
}

/* libc's own generators are copies in every box until they are seeded anew. */
static void seed_libc(void)
{
    unsigned seed;

    rand_bytes(&seed, sizeof(seed));
    srand(seed);
    srand48((long)seed);
}

static PyObject *husk_seed_libc(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    seed_libc();
    Py_RETURN_NONE;
}

/* A bare fork without hooks or namespaces, for measuring what isolation costs. */
static PyObject *husk_fork(PyObject *self, PyObject *args)
{
    int pidfd = -1;

    (void)self;
    (void)args;
    pid_t pid = rawfork(0, &pidfd);
    if (pid < 0) {
        return module_errno(pid);
    }
    if (pid > 0) {
        close(pidfd);
    }
    return PyLong_FromLong(pid);
}

static PyMethodDef methods[] = {
    {"freeze", husk_freeze, METH_NOARGS, "Freeze private memory for cheap forks."},
    {"zygote", husk_zygote, METH_NOARGS, "Serve the launcher; returns in a new box."},
    {"rehearse", husk_rehearse, METH_NOARGS, "Fork a rehearsal of a box's first steps."},
    {"hotset_save", husk_hotset_save, METH_NOARGS, "End the rehearsal."},
    {"broken", husk_broken, METH_VARARGS, "Report that the template cannot work and exit."},
    {"session", husk_session, METH_NOARGS, "Be PID 1 of a session; returns in a context."},
    {"ready", husk_ready, METH_NOARGS, "Say that this box or context waits for code."},
    {"mute", husk_mute, METH_VARARGS, "Point stdio at /dev/null."},
    {"unmute", husk_unmute, METH_VARARGS, "Undo mute."},
    {"once", husk_once, METH_VARARGS, "Serve one run, in C as far as possible."},
    {"rehearse_once", husk_rehearse_once, METH_VARARGS, "Run a cell as once() would."},
    {"recv", husk_recv, METH_NOARGS, "Wait for a frame: (type, fd, fields) or None."},
    {"send", husk_send, METH_VARARGS, "Send a frame: type, fields."},
    {"send_file", husk_send_file, METH_VARARGS, "Send a workspace file."},
    {"adopt", husk_adopt, METH_VARARGS, "Listen on another control socket."},
    {"seed_libc", husk_seed_libc, METH_NOARGS, "Seed rand() and friends."},
    {"fork", husk_fork, METH_NOARGS, "Fork past all hooks."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_husk", "The inside of a husk box.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__husk(void);

PyMODINIT_FUNC PyInit__husk(void)
{
    return PyModule_Create(&definition);
}
