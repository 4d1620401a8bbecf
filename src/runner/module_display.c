/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _husk: which run may answer, and what it displays; see module.h.
 *
 * All of this runs under the interpreter's lock and without calling back into Python, so numbers
 * and limits hold whatever threads and interrupts do in between.
 */
#define PY_SSIZE_T_CLEAN
#include "runner/module.h"

#include <unistd.h>

#include "box/setup.h"
#include "runner/control.h"

static struct {
    bool open;
    bool rich;       /* displays were requested */
    bool dropped;    /* has been reported */
    pid_t pid;       /* a process that user code forks shares the socket, but must not use it */
    uint32_t number; /* of the next DISPLAY frame */
    uint32_t displays;
    size_t bytes;
} run;

void module_run_begin(const struct buf *body)
{
    struct frame_field f;

    run.open = true;
    run.rich = false;
    run.dropped = false;
    run.pid = getpid();
    run.number = 0;
    run.displays = 0;
    run.bytes = 0;
    for (size_t at = 0; frame_next(body->data, body->len, &at, &f) > 0;) {
        run.rich = run.rich || f.key == KEY_RICH;
    }
}

bool module_run_is_open(void)
{
    return run.open && run.pid == getpid();
}

void module_run_end(void)
{
    run.open = false;
}

PyObject *husk_run_is_open(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    return PyBool_FromLong(module_run_is_open());
}

/* Appends (type, data) pairs. -1 with an exception set. */
static int add_forms(struct buf *b, PyObject *forms, size_t *bytes)
{
    Py_ssize_t n = PyList_Size(forms);

    if (n < 1 || n > FRAME_FORMS_MAX) {
        PyErr_SetString(PyExc_ValueError, "a display has 1 to 32 forms");
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        const char *type;
        const char *data;
        Py_ssize_t type_len;
        Py_ssize_t len;
        PyObject *pair = PyList_GetItem(forms, i); /* borrowed */
        int ok = pair != NULL && PyArg_ParseTuple(pair, "y#y#", &type, &type_len, &data, &len);
        /* What does not fit is counted all the same; the frame is dropped then. */
        if (ok && *bytes + (size_t)len <= FRAME_DISPLAY_BYTES_MAX &&
            (frame_add(b, KEY_MIME, type, (size_t)type_len) < 0 ||
             frame_add(b, KEY_DATA, data, (size_t)len) < 0)) {
            ok = 0;
            PyErr_NoMemory();
        }
        if (!ok) {
            return -1;
        }
        *bytes += (size_t)len;
    }
    return 0;
}

static int begin_display(struct buf *b)
{
    return frame_begin(b, FRAME_DISPLAY, module_run.token) < 0 ||
                   frame_add_u32(b, KEY_SEQ, run.number) < 0
               ? -1
               : 0;
}

static PyObject *send_display(struct buf *b)
{
    int r = frame_end(b);

    if (r == 0) {
        r = control_send(BOX_CONTROL_FD, b);
    }
    if (r < 0) {
        return module_errno(r);
    }
    run.number++;
    Py_RETURN_TRUE;
}

/* Reported once per run. */
static PyObject *send_dropped(void)
{
    AUTO_BUF struct buf b = BUF_INIT(256);

    if (run.dropped) {
        Py_RETURN_TRUE;
    }
    if (begin_display(&b) < 0 || frame_add(&b, KEY_DROPPED, "", 0) < 0) {
        return PyErr_NoMemory();
    }
    run.dropped = true;
    return send_display(&b);
}

/* display(forms): False when this run, or this process, may not display anything. */
PyObject *husk_display(PyObject *self, PyObject *args)
{
    AUTO_BUF struct buf b = BUF_INIT(FRAME_FROM_BOX_MAX);
    size_t bytes = run.bytes;
    PyObject *forms;

    (void)self;
    if (!PyArg_ParseTuple(args, "O!", &PyList_Type, &forms)) {
        return NULL;
    }
    if (!run.rich || !module_run_is_open()) {
        Py_RETURN_FALSE;
    }
    if (begin_display(&b) < 0) {
        return PyErr_NoMemory();
    }
    if (add_forms(&b, forms, &bytes) < 0) {
        return NULL;
    }
    if (run.displays == FRAME_DISPLAYS_MAX || bytes > FRAME_DISPLAY_BYTES_MAX) {
        return send_dropped();
    }
    run.displays++;
    run.bytes = bytes;
    return send_display(&b);
}
