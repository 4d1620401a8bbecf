/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _husk: code that can be run with as little Python of ours as possible; see module.h.
 *
 * Every Python function that runs touches pages: in a new box they have to be copied first, in a
 * session that slept they have left the caches. So a plain request (no arguments, no variables, no
 * rich output, nothing that a rule could forbid) is read, compiled and run here.
 */
#define PY_SSIZE_T_CLEAN
#include "runner/module.h"

#include <string.h>

#include "base/str.h"
#include "box/setup.h"

/* Fields end where the next one starts, so strings get their NUL only here. */
static char *copy_string(const struct frame_field *f)
{
    char *s = PyMem_Malloc((size_t)f->len + 1);

    if (s != NULL) {
        memcpy(s, f->data, f->len);
        s[f->len] = '\0';
    }
    return s;
}

static void replace(const char **to, const struct frame_field *f)
{
    PyMem_Free(drop_const(*to));
    *to = copy_string(f);
}

bool plain_read(const struct buf *body, struct plain *ret)
{
    struct frame_field f;
    bool plain = true;

    *ret = (struct plain){.kind = FRAME_SCRIPT};
    for (size_t at = 0; frame_next(body->data, body->len, &at, &f) > 0;) {
        switch (f.key) {
        case KEY_CODE:
            replace(&ret->code, &f);
            plain = plain && memchr(f.data, '\0', f.len) == NULL;
            break;
        case KEY_NAME:
            replace(&ret->name, &f);
            break;
        case KEY_KIND:
            ret->kind = f.len == 1 ? f.data[0] : FRAME_HANDLER;
            break;
        case KEY_POLICY:
            ret->checked = true;
            plain = plain && f.len == 1 && f.data[0] == FRAME_POLICY_PYRUNNER;
            break;
        case KEY_PRINT:
            ret->print = true;
            break;
        default:
            plain = false;
            break;
        }
    }
    return plain && ret->code != NULL && ret->name != NULL && ret->kind != FRAME_HANDLER;
}

void plain_release(struct plain *p)
{
    PyMem_Free(drop_const(p->code));
    PyMem_Free(drop_const(p->name));
    *p = (struct plain){.kind = FRAME_SCRIPT};
}

void plain_rename(struct plain *p, const char *name)
{
    const struct frame_field f = {.len = (uint32_t)strlen(name), .data = name};

    replace(&p->name, &f);
}

PyObject *plain_take_exception(void)
{
    PyObject *type;
    PyObject *value;
    PyObject *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL) {
        PyException_SetTraceback(value, traceback);
    }
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

/* As print() of the user's own would. False with an exception set. */
static bool print_value(PyObject *value)
{
    PyObject *print = PyDict_GetItemString(PyEval_GetBuiltins(), "print"); /* both borrowed */

    if (print == NULL) {
        PyErr_SetString(PyExc_NameError, "name 'print' is not defined");
        return false;
    }
    PyObject *done = PyObject_CallFunctionObjArgs(print, value, NULL);
    Py_XDECREF(done);
    return done != NULL;
}

enum rest plain_run(const struct plain *p, PyObject *space, PyObject **ret)
{
    /* Only what is one expression: several statements with a last value need the syntax tree. */
    bool has_value = p->kind == FRAME_CELL || p->print;

    *ret = NULL;
    if (p->checked && module_may_break_a_rule(p->code)) {
        return REST_ALL;
    }
    PyObject *code = Py_CompileString(p->code, p->name, has_value ? Py_eval_input : Py_file_input);
    if (code == NULL && (p->checked || (has_value && PyErr_ExceptionMatches(PyExc_SyntaxError)))) {
        PyErr_Clear(); /* more than an expression, or an error: Python compiles it again */
        return REST_ALL;
    }
    source_running(p);
    PyObject *value = code != NULL ? PyEval_EvalCode(code, space, space) : NULL;
    Py_XDECREF(code);
    if (value != NULL && value != Py_None && p->print && !print_value(value)) {
        Py_DECREF(value);
        value = NULL;
    }
    if (value == NULL) {
        *ret = plain_take_exception();
        return REST_ERROR;
    }
    if (p->kind == FRAME_CELL && value != Py_None) {
        *ret = value;
        return REST_VALUE;
    }
    Py_DECREF(value);
    return REST_NOTHING;
}

static void flush(const char *stream)
{
    PyObject *file = PySys_GetObject(stream); /* borrowed */
    PyObject *done = file != NULL ? PyObject_CallMethod(file, "flush", NULL) : NULL;

    if (done == NULL) {
        bool is_interrupt = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
        PyErr_Clear(); /* user code may have closed or replaced it */
        if (is_interrupt) {
            PyErr_SetInterrupt(); /* for the cell, not for the stream */
        }
    }
    Py_XDECREF(done);
}

void plain_flush(void)
{
    flush("stdout");
    flush("stderr");
}

int plain_done(void)
{
    struct {
        struct frame_head head;
        uint32_t key, len, code;
    } done = {.head = {.type = FRAME_DONE, .len = 12}, .key = KEY_EXIT, .len = 4};

    memcpy(done.head.token, module_run.token, sizeof(done.head.token));
    ssize_t n = fd_send(BOX_CONTROL_FD, &done, sizeof(done), NULL, 0, 0);
    return n < 0 ? (int)n : 0;
}
