/* SPDX-License-Identifier: Apache-2.0 */
/* _husk: frames of the control socket as Python objects; see module.h. */
#define PY_SSIZE_T_CLEAN
#include "runner/module.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "box/setup.h"
#include "runner/control.h"
#include "runner/files.h"
#include "runner/interrupt.h"

#define STDIO 3
#define LARGE_BODY ((size_t)1 << 20)

struct frame_head module_run;

PyObject *module_errno(int r)
{
    errno = -r;
    return PyErr_SetFromErrno(PyExc_OSError);
}

/* Appends (key, bytes), or writes the file that the field holds. -1 with an exception set. */
static int take_field(PyObject *list, const struct frame_field *f)
{
    struct err e;

    if (f->key == KEY_PUT) {
        if (files_put(f, &e) < 0) {
            PyErr_SetString(PyExc_OSError, e.msg);
            return -1;
        }
        return 0;
    }
    PyObject *pair = Py_BuildValue("Iy#", (unsigned)f->key, f->data, (Py_ssize_t)f->len);
    int r = pair != NULL ? PyList_Append(list, pair) : -1;
    Py_XDECREF(pair);
    return r;
}

static PyObject *read_fields(const struct buf *body)
{
    PyObject *list = PyList_New(0);
    struct frame_field f;
    size_t at = 0;
    int r = list != NULL ? 1 : -1;

    while (r > 0) {
        r = frame_next(body->data, body->len, &at, &f);
        if (r > 0 && take_field(list, &f) < 0) {
            r = -1;
        }
    }
    if (r < 0) {
        Py_CLEAR(list);
        if (PyErr_Occurred() == NULL) {
            PyErr_SetString(PyExc_ValueError, "malformed frame");
        }
    }
    return list;
}

/*
 * RUN may bring new stdio; CONTEXT and BRANCH bring a control socket, which is handed to the
 * caller.
 */
int module_place_fds(const struct frame_head *head, struct fd_set_msg *fds)
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

int module_wait(struct buf **ret_body, struct fd_set_msg *fds)
{
    static struct buf body = {.max = FRAME_TO_BOX_MAX};
    int r;

    for (;;) {
        if (body.cap > LARGE_BODY) {
            buf_release(&body); /* one large upload must not stay in a session's memory */
        }
        bool looked;
        Py_BEGIN_ALLOW_THREADS looked = control_look(BOX_CONTROL_FD);
        Py_END_ALLOW_THREADS if (looked && PyErr_CheckSignals() < 0)
        {
            return -1;
        }
        Py_BEGIN_ALLOW_THREADS r = control_recv_cell(BOX_CONTROL_FD, &module_run, &body, fds);
        Py_END_ALLOW_THREADS if (r != -EINTR)
        {
            *ret_body = &body;
            return r;
        }
        if (PyErr_CheckSignals() < 0) {
            return -1; /* EPERM, which no socket gives: the exception is set */
        }
    }
}

PyObject *module_hand_over(enum rest rest, PyObject *what, const struct buf *body)
{
    PyObject *fields = read_fields(body);

    if (fields == NULL) {
        Py_XDECREF(what);
        return NULL;
    }
    if (what == NULL) {
        what = Py_None;
        Py_INCREF(what);
    }
    return Py_BuildValue("iNN", (int)rest, what, fields);
}

void module_wait_for_end(void)
{
    char byte;

    while (read(BOX_CONTROL_FD, &byte, 1) < 0 && errno == EINTR) {
    }
}

PyObject *husk_wait_for_end(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    Py_BEGIN_ALLOW_THREADS module_wait_for_end();
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

/* Appends (key, bytes) pairs. -1 with an exception set. */
static int add_fields(struct buf *b, PyObject *fields)
{
    Py_ssize_t n = PySequence_Size(fields);

    for (Py_ssize_t i = 0; i < n; i++) {
        unsigned key;
        const char *data;
        Py_ssize_t len;
        PyObject *pair = PySequence_GetItem(fields, i);
        int ok = pair != NULL && PyArg_ParseTuple(pair, "Iy#", &key, &data, &len);
        if (ok && frame_add(b, key, data, (size_t)len) < 0) {
            ok = 0;
            PyErr_SetString(PyExc_OverflowError, "result is too large");
        }
        Py_XDECREF(pair);
        if (!ok) {
            return -1;
        }
    }
    return n < 0 ? -1 : 0;
}

PyObject *husk_done(PyObject *self, PyObject *args)
{
    AUTO_BUF struct buf b = BUF_INIT(FRAME_FROM_BOX_MAX);
    PyObject *fields;
    int then_mute = 0;

    (void)self;
    if (!PyArg_ParseTuple(args, "O|p", &fields, &then_mute)) {
        return NULL;
    }
    if (!module_run_is_open()) {
        Py_RETURN_NONE;
    }
    if (frame_begin(&b, FRAME_DONE, module_run.token) < 0) {
        return PyErr_NoMemory();
    }
    if (add_fields(&b, fields) < 0) {
        return NULL;
    }
    if (interrupt_end() && PyErr_CheckSignals() < 0) {
        return NULL;
    }
    module_run_end();
    int r = frame_end(&b);
    if (r == 0) {
        r = control_send(BOX_CONTROL_FD, &b);
    }
    /*
     * After the answer, so that the client does not wait for it. No thread of Python runs in
     * between: output from now on must not go into a pipe without a reader.
     */
    if (r == 0 && then_mute) {
        r = module_mute(NULL);
    }
    if (r < 0) {
        return module_errno(r);
    }
    Py_RETURN_NONE;
}

PyObject *husk_send_file(PyObject *self, PyObject *args)
{
    const char *name;
    Py_ssize_t len;

    (void)self;
    if (!PyArg_ParseTuple(args, "y#", &name, &len)) {
        return NULL;
    }
    struct frame_field f = {.key = KEY_GET, .len = (uint32_t)len, .data = name};
    int r = files_send(BOX_CONTROL_FD, &module_run, &f);
    if (r < 0) {
        return module_errno(r);
    }
    Py_RETURN_NONE;
}
