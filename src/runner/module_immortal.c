/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _husk: objects of the zygote that are never counted again (CPython 3.12 and 3.13).
 *
 * Using an object changes its reference count, and in a box that copies its page. An object whose
 * count has one certain value is immortal: the interpreter leaves the count alone. That costs
 * nothing: boxes could not free the zygote's objects anyway.
 */
#define PY_SSIZE_T_CLEAN
#include "runner/module.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"

/*
 * Half of the count: in the upper half, extensions that were built for older versions may count on
 * without any harm.
 */
#define IMMORTAL UINT32_MAX

/* Objects that are immortal already, and whose references are still to be followed. */
struct found {
    PyObject **list;
    size_t n;
    size_t room;
    PyTypeObject *code_type; /* unknown to the collector: it cannot be traversed */
};

static bool is_immortal(const PyObject *o)
{
    int32_t count;

    memcpy(&count, &o->ob_refcnt, sizeof(count));
    return count < 0;
}

static int visit(PyObject *o, void *user)
{
    const uint32_t count = IMMORTAL;
    struct found *found = user;

    if (is_immortal(o)) {
        return 0;
    }
    if (found->n == found->room) {
        size_t room = found->room == 0 ? 4096 : 2 * found->room;
        PyObject **list = reallocarray(found->list, room, sizeof(void *));
        if (list == NULL) {
            return -1;
        }
        found->list = list;
        found->room = room;
    }
    memcpy(&o->ob_refcnt, &count, sizeof(count));
    found->list[found->n++] = o;
    return 0;
}

static int visit_code(PyObject *code, struct found *found)
{
    static const char *const parts[] = {"co_consts", "co_name", "co_qualname", "co_filename"};
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(parts) && r == 0; i++) {
        PyObject *part = PyObject_GetAttrString(code, parts[i]);
        r = part != NULL ? visit(part, found) : -1;
        Py_XDECREF(part);
    }
    return r;
}

/*
 * Some objects of a type that the collector knows are unknown to it: classes that an extension
 * defines as static data. Traversing one aborts the interpreter.
 */
static bool is_collected(PyObject *o, PyTypeObject *type)
{
    inquiry is_gc;

    if ((PyType_GetFlags(type) & Py_TPFLAGS_HAVE_GC) == 0) {
        return false;
    }
    void *slot = PyType_GetSlot(type, Py_tp_is_gc);
    memcpy(&is_gc, &slot, sizeof(is_gc)); /* C has no cast between them */
    return slot == NULL || is_gc(o) != 0;
}

static int visit_what_it_holds(PyObject *o, struct found *found)
{
    PyTypeObject *type = Py_TYPE(o);
    traverseproc traverse;

    if (type == found->code_type) {
        return visit_code(o, found);
    }
    if (!is_collected(o, type)) {
        return 0;
    }
    void *slot = PyType_GetSlot(type, Py_tp_traverse);
    memcpy(&traverse, &slot, sizeof(traverse)); /* as above */
    return slot != NULL ? traverse(o, visit, found) : 0;
}

static int make_immortal(PyObject *roots, struct found *found)
{
    for (Py_ssize_t i = 0; i < PyList_Size(roots); i++) {
        if (visit(PyList_GetItem(roots, i), found) < 0) {
            return -1;
        }
        while (found->n > 0) {
            if (visit_what_it_holds(found->list[--found->n], found) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* make_immortal(objects, code): these, and whatever can be reached from them. code: any. */
PyObject *husk_make_immortal(PyObject *self, PyObject *args)
{
    struct found found = {0};
    PyObject *roots;
    PyObject *code;

    (void)self;
    if (!PyArg_ParseTuple(args, "OO", &roots, &code) || !PyList_Check(roots)) {
        return PyErr_Occurred() != NULL ? NULL : PyErr_Format(PyExc_TypeError, "a list is needed");
    }
    found.code_type = Py_TYPE(code);
    int r = make_immortal(roots, &found);
    free(found.list);
    if (r < 0) {
        return PyErr_Occurred() != NULL ? NULL : PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}
