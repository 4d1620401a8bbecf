/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _husk: what the end of an interpreter does with what a program leaves behind; see module.h.
 *
 * The interpreter itself is not finalised: that would take too long. Nor can it find the program's
 * globals to be garbage, for their namespace is part of the frozen memory. So they are removed from
 * it: files are flushed and __del__ is called. Modules stay, and so does what threads still use,
 * except that its files are flushed.
 */
#define PY_SSIZE_T_CLEAN
#include "runner/module.h"

/* Found before memory is frozen and before a program can replace them. Owned for ever. */
static PyObject *list_objects; /* gc.get_objects: without what is frozen */
static PyObject *file_type;    /* what all kinds of file have in common */

/* The order in which values are removed: a finaliser may need those that follow. */
enum turn { TURN_FINALISER, TURN_OTHER, TURN_CALLABLE, TURN_NEVER };

/*
 * Removing it frees nothing else. Modules are held by the list of all modules. Runs no code of the
 * program.
 */
static bool is_plain(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);

    return value == Py_None || type == &PyLong_Type || type == &PyUnicode_Type ||
           type == &PyModule_Type || type == &PyFloat_Type || type == &PyBool_Type ||
           type == &PyBytes_Type;
}

static enum turn turn_of(PyObject *value)
{
    if (is_plain(value)) {
        return TURN_NEVER;
    }
    if (PyObject_HasAttrString((PyObject *)Py_TYPE(value), "__del__")) {
        return TURN_FINALISER;
    }
    return PyCallable_Check(value) ? TURN_CALLABLE : TURN_OTHER;
}

static bool is_left_alone(PyObject *space)
{
    PyObject *name;
    PyObject *value;
    Py_ssize_t at = 0;

    while (PyDict_Next(space, &at, &name, &value)) {
        if (!is_plain(value)) {
            return false;
        }
    }
    return true;
}

static void take_turn(PyObject *space, enum turn turn)
{
    PyObject *names = PyDict_Keys(space); /* what is called may change the namespace */

    for (Py_ssize_t i = 0; names != NULL && i < PyList_Size(names); i++) {
        PyObject *name = PyList_GetItem(names, i); /* both borrowed */
        PyObject *value = PyDict_GetItemWithError(space, name);
        Py_XINCREF(value); /* a metaclass may be asked, and do anything */
        if (value != NULL && turn_of(value) == turn) {
            (void)PyDict_DelItem(space, name);
        }
        Py_XDECREF(value);
        PyErr_Clear();
    }
    Py_XDECREF(names);
}

void module_finalise(PyObject *space)
{
    if (is_left_alone(space)) {
        return;
    }
    take_turn(space, TURN_FINALISER);
    take_turn(space, TURN_OTHER);
    PyGC_Collect();
    take_turn(space, TURN_CALLABLE);
    PyGC_Collect();
    PyErr_Clear();
}

static PyObject *find(const char *module, const char *name)
{
    PyObject *from = PyImport_ImportModule(module);
    PyObject *found = from != NULL ? PyObject_GetAttrString(from, name) : NULL;

    Py_XDECREF(from);
    return found;
}

bool module_finalise_prepare(void)
{
    list_objects = find("gc", "get_objects");
    file_type = list_objects != NULL ? find("_io", "_IOBase") : NULL;
    return file_type != NULL;
}

Py_ssize_t module_count_names(PyObject *space)
{
    return PyDict_Size(space) + PyDict_Size(PyImport_GetModuleDict());
}

void module_flush_files(void)
{
    /* Rehearsed before it is prepared: no program has made any. */
    PyObject *all = list_objects != NULL ? PyObject_CallObject(list_objects, NULL) : NULL;

    for (Py_ssize_t i = 0; all != NULL && i < PyList_Size(all); i++) {
        PyObject *one = PyList_GetItem(all, i); /* borrowed */
        if (!PyObject_TypeCheck(one, (PyTypeObject *)file_type)) {
            continue;
        }
        Py_INCREF(one); /* a program's own kind of file may do anything */
        PyObject *done = PyObject_CallMethod(one, "flush", NULL);
        Py_XDECREF(done);
        PyErr_Clear(); /* closed, or its disk is full */
        Py_DECREF(one);
    }
    Py_XDECREF(all);
    PyErr_Clear();
}

PyObject *husk_finalise(PyObject *self, PyObject *space)
{
    (void)self;
    if (!PyDict_Check(space)) {
        PyErr_SetString(PyExc_TypeError, "a namespace is a dict");
        return NULL;
    }
    module_finalise(space);
    Py_RETURN_NONE;
}

PyObject *husk_flush_files(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    module_flush_files();
    Py_RETURN_NONE;
}
