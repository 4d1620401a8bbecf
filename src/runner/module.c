/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _husk: the runner as a CPython extension, built once against the stable ABI for every CPython
 * from 3.9 on.
 *
 * A thin skin over zygote.c, pid1.c and control.c. Isolation happens in C before any of this
 * returns into Python.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "runner/heap.h"
#include "runner/module.h"
#include "runner/pagewise.h"
#include "runner/pid1.h"
#include "runner/rawfork.h"
#include "runner/remap.h"
#include "runner/zygote.h"

static PyObject *husk_freeze(PyObject *self, PyObject *args)
{
    struct remap_stats stats;

    (void)self;
    (void)args;
    int r = remap_freeze(&stats);
    if (r < 0) {
        return module_errno(r);
    }
    (void)pagewise_begin(); /* for good: what the zygote maps from now on, its boxes inherit */
    return Py_BuildValue("nn", (Py_ssize_t)stats.regions, (Py_ssize_t)stats.bytes);
}

static PyObject *husk_fill_holes(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    heap_fill_holes();
    Py_RETURN_NONE;
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

static PyObject *husk_note(PyObject *self, PyObject *args)
{
    const char *message;

    (void)self;
    if (!PyArg_ParseTuple(args, "s", &message)) {
        return NULL;
    }
    zygote_note(message);
    Py_RETURN_NONE;
}

static PyObject *husk_session(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    pid1_serve(&(struct pid1_interpreters){.own = true});
    Py_RETURN_NONE;
}

/* A bare fork without hooks or namespaces, for measuring what isolation costs. */
static PyObject *husk_fork(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    pid_t pid = rawfork_plain();
    if (pid < 0) {
        return module_errno(pid);
    }
    return PyLong_FromLong(pid);
}

static PyMethodDef methods[] = {
    {"fill_holes", husk_fill_holes, METH_NOARGS, "Take every free block of the C library's heap."},
    {"freeze", husk_freeze, METH_NOARGS, "Freeze private memory for cheap forks."},
    {"make_immortal", husk_make_immortal, METH_VARARGS,
     "Stop counting references to these objects and to all that they hold."},
    {"prepare", husk_prepare, METH_VARARGS, "Give C what it needs to serve a run."},
    {"unbuffer", husk_unbuffer, METH_VARARGS, "Make print() to these streams one write."},
    {"rehearse", husk_rehearse, METH_NOARGS, "Find out which memory a first run touches."},
    {"zygote", husk_zygote, METH_NOARGS, "Serve the launcher; returns in a box that needs Python."},
    {"broken", husk_broken, METH_VARARGS, "Report that the template cannot work and exit."},
    {"note", husk_note, METH_VARARGS, "Say which preloads boxes have to do without."},
    {"session", husk_session, METH_NOARGS, "Be PID 1 of a session; returns in a context."},
    {"ready", husk_ready, METH_NOARGS, "Report that this box or context waits for code."},
    {"mute", husk_mute, METH_NOARGS, "Point stdio at /dev/null."},
    {"cell", husk_cell, METH_VARARGS,
     "Serve plain cells; returns ((rest, what, fields), type, fd) for others, None at the end."},
    {"wait_for_end", husk_wait_for_end, METH_NOARGS, "Wait until the launcher ends this box."},
    {"finalise", husk_finalise, METH_O, "Free what a program leaves in its namespace."},
    {"flush_files", husk_flush_files, METH_NOARGS, "Flush every file that a program has made."},
    {"run_is_open", husk_run_is_open, METH_NOARGS, "Whether this process has a run to answer."},
    {"done", husk_done, METH_VARARGS,
     "End the run that is open, if there is one, with these fields."},
    {"display", husk_display, METH_VARARGS, "Send something in all its forms: [(type, data)]."},
    {"send_file", husk_send_file, METH_VARARGS, "Send a workspace file."},
    {"source", husk_source, METH_VARARGS, "Code that C ran under this name, or None."},
    {"cell_name", husk_cell_name, METH_NOARGS, "The name of the running code in tracebacks."},
    {"branch", husk_branch, METH_VARARGS, "Copy this context. True in the copy."},
    {"seed_libc", husk_seed_libc, METH_NOARGS, "Seed rand() and friends."},
    {"fork", husk_fork, METH_NOARGS, "Fork past all hooks."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "_husk",
    "The inside of a husk box.",
    -1,
    methods,
    NULL,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__husk(void);

PyMODINIT_FUNC PyInit__husk(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *writer = module != NULL ? output_writer_type() : NULL;

    if (writer == NULL || PyModule_AddObject(module, "Writer", writer) < 0) {
        Py_XDECREF(writer);
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
