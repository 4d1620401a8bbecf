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

#include "box/setup.h"
#include "runner/abort.h"
#include "runner/control.h"
#include "runner/files.h"
#include "runner/hotset.h"
#include "runner/remap.h"
#include "runner/rawfork.h"
#include "runner/session.h"
#include "runner/zygote.h"

#define STDIO 3

static struct frame_head current; /* of the run that is being served: its token goes into every answer */

static PyObject *raise_errno(int r)
{
    errno = -r;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *husk_freeze(PyObject *self, PyObject *args)
{
    struct remap_stats stats;

    (void)self;
    (void)args;
    int r = remap_freeze(&stats);
    if (r < 0) {
        return raise_errno(r);
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
        return raise_errno(-errno);
    }
    if (getpid() == 1) {
        abort_report((const uint8_t(*)[FRAME_TOKEN_SIZE]) & current.token);
    }
    int r = control_send_ready(BOX_CONTROL_FD);
    if (r < 0) {
        return raise_errno(r);
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
            return raise_errno(-errno);
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
            return raise_errno(-errno);
        }
        close(saved[i]);
    }
    Py_RETURN_NONE;
}

/* Fields as a list of (key, bytes). Files are written here and left out. */
static PyObject *build_fields(const struct buf *body)
{
    PyObject *list = PyList_New(0);
    struct frame_field f;
    struct err e;
    size_t at = 0;
    int r = 0;

    while (list != NULL && (r = frame_next(body->data, body->len, &at, &f)) > 0) {
        if (f.key == KEY_PUT) {
            if (files_put(&f, &e) < 0) {
                PyErr_SetString(PyExc_OSError, e.msg);
                Py_CLEAR(list);
            }
            continue;
        }
        PyObject *pair = Py_BuildValue("Iy#", (unsigned)f.key, f.data, (Py_ssize_t)f.len);
        if (pair == NULL || PyList_Append(list, pair) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(pair);
    }
    if (r < 0) {
        Py_CLEAR(list);
        PyErr_SetString(PyExc_ValueError, "malformed frame");
    }
    return list;
}

/* RUN may bring new stdio; CONTEXT and BRANCH bring a control socket, which is handed to the caller. */
static int place_fds(const struct frame_head *head, struct fd_set_msg *fds)
{
    if (head->type == FRAME_RUN && fds->n == STDIO) {
        for (int i = 0; i < STDIO; i++) {
            if (dup3(fds->fds[i], i, 0) < 0) {
                return -errno;
            }
        }
    }
    if (head->type == FRAME_BRANCH && fds->n == 1) {
        int fd = fds->fds[0];
        fds->n = 0;
        return fd;
    }
    fd_set_release(fds);
    return -1;
}

static PyObject *husk_recv(PyObject *self, PyObject *args)
{
    static struct buf body = {.max = FRAME_TO_BOX_MAX};
    struct fd_set_msg fds = {.n = 0};
    int r;

    (void)self;
    (void)args;
    for (;;) {
        Py_BEGIN_ALLOW_THREADS
        r = control_recv(BOX_CONTROL_FD, &current, &body, &fds);
        Py_END_ALLOW_THREADS
        if (r != -EINTR) {
            break;
        }
        if (PyErr_CheckSignals() < 0) {
            return NULL;
        }
    }
    if (r < 0) {
        return raise_errno(r);
    }
    if (r == 0) {
        Py_RETURN_NONE;
    }
    int fd = place_fds(&current, &fds);
    PyObject *fields = build_fields(&body);
    if (body.cap > (size_t)1 << 20) {
        buf_release(&body); /* one large upload must not stay in a session's memory */
    }
    if (fields == NULL) {
        return NULL;
    }
    return Py_BuildValue("IiN", (unsigned)current.type, fd, fields);
}

static PyObject *husk_send(PyObject *self, PyObject *args)
{
    AUTO_BUF struct buf b = BUF_INIT(FRAME_FROM_BOX_MAX);
    unsigned type;
    PyObject *fields;

    (void)self;
    if (!PyArg_ParseTuple(args, "IO", &type, &fields)) {
        return NULL;
    }
    if (frame_begin(&b, type, current.token) < 0) {
        return PyErr_NoMemory();
    }
    Py_ssize_t n = PySequence_Size(fields);
    for (Py_ssize_t i = 0; i < n; i++) {
        unsigned key;
        const char *data;
        Py_ssize_t len;
        PyObject *pair = PySequence_GetItem(fields, i);
        int ok = pair != NULL && PyArg_ParseTuple(pair, "Iy#", &key, &data, &len);
        if (ok && frame_add(&b, key, data, (size_t)len) < 0) {
            ok = 0;
            PyErr_SetString(PyExc_OverflowError, "result is too large");
        }
        Py_XDECREF(pair);
        if (!ok) {
            return NULL;
        }
    }
    int r = frame_end(&b);
    if (r == 0) {
        r = control_send(BOX_CONTROL_FD, &b);
    }
    if (r < 0) {
        return raise_errno(r);
    }
    Py_RETURN_NONE;
}

static PyObject *husk_send_file(PyObject *self, PyObject *args)
{
    const char *name;
    Py_ssize_t len;

    (void)self;
    if (!PyArg_ParseTuple(args, "y#", &name, &len)) {
        return NULL;
    }
    struct frame_field f = {.key = KEY_GET, .len = (uint32_t)len, .data = name};
    int r = files_send(BOX_CONTROL_FD, &current, &f);
    if (r < 0) {
        return raise_errno(r);
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
        return raise_errno(-errno);
    }
    close(fd);
    Py_RETURN_NONE;
}

/* libc's own generators are copies in every box until they are seeded anew. */
static PyObject *husk_seed_libc(PyObject *self, PyObject *args)
{
    unsigned seed;

    (void)self;
    if (!PyArg_ParseTuple(args, "I", &seed)) {
        return NULL;
    }
    srand(seed);
    srand48((long)seed);
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
        return raise_errno(pid);
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
    {"recv", husk_recv, METH_NOARGS, "Wait for a frame: (type, fd, fields) or None."},
    {"send", husk_send, METH_VARARGS, "Send a frame: type, fields."},
    {"send_file", husk_send_file, METH_VARARGS, "Send a workspace file."},
    {"adopt", husk_adopt, METH_VARARGS, "Listen on another control socket."},
    {"seed_libc", husk_seed_libc, METH_VARARGS, "Seed rand() and friends."},
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
