/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _husk: standard output that loses nothing; see module.h and docs/adr/0032-unbuffered-output.md.
 *
 * What a program has printed must be in the pipe when the call returns: a box is ended by SIGKILL,
 * which no buffer in its memory survives. A print() of CPython's own would then be one system call
 * for each of its parts and one for the end of the line. Here it is one call as a rule.
 */
#define PY_SSIZE_T_CLEAN
#include "runner/module.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/attr.h"

#define STREAMS 2 /* stdout and stderr */

/* Found before a program can replace them. Owned for ever. */
static struct {
    PyObject *write; /* of io.BufferedWriter, without an object */
    PyObject *flush;
    PyObject *print;            /* the interpreter's own */
    PyObject *streams[STREAMS]; /* that print() knows to be ours, */
    PyObject *buffers[STREAMS]; /* and what is below them */
    PyObject *closed_name;
    PyObject *write_name;
    PyObject *empty;
    PyObject *space;
    PyObject *newline;
} own;

/* ---- the buffer: hands over at once ---- */

static bool is_closed(PyObject *self)
{
    PyObject *closed = PyObject_GetAttr(self, own.closed_name);

    Py_XDECREF(closed);
    return closed != Py_False;
}

/* All of it, also if signals come between. False with an exception set. */
static bool write_all(int fd, const char *data, size_t n)
{
    while (n > 0) {
        ssize_t w;
        int why;

        Py_BEGIN_ALLOW_THREADS;
        w = write(fd, data, n);
        why = errno;
        Py_END_ALLOW_THREADS;
        if (w < 0 && why == EINTR) {
            if (PyErr_CheckSignals() < 0) {
                return false;
            }
            continue;
        }
        if (w < 0) {
            errno = why;
            PyErr_SetFromErrno(PyExc_OSError);
            return false;
        }
        data += w;
        n -= (size_t)w;
    }
    return true;
}

/* The slow way: data of other types, a stream that was closed, and its errors. */
static PyObject *write_and_flush(PyObject *self, PyObject *data)
{
    PyObject *n = PyObject_CallFunctionObjArgs(own.write, self, data, NULL);
    PyObject *done = n != NULL ? PyObject_CallFunctionObjArgs(own.flush, self, NULL) : NULL;

    if (done == NULL) {
        Py_XDECREF(n);
        return NULL;
    }
    Py_DECREF(done);
    return n;
}

/* The buffer that it inherits stays empty. */
static PyObject *writer_write(PyObject *self, PyObject *data)
{
    int fd = self == own.buffers[0] ? STDOUT_FILENO : self == own.buffers[1] ? STDERR_FILENO : -1;
    char *bytes;
    Py_ssize_t n;

    if (fd < 0 || Py_TYPE(data) != &PyBytes_Type || is_closed(self)) {
        return write_and_flush(self, data);
    }
    if (PyBytes_AsStringAndSize(data, &bytes, &n) < 0 || !write_all(fd, bytes, (size_t)n)) {
        return NULL;
    }
    return PyLong_FromSsize_t(n);
}

/* Writer: an io.BufferedWriter that has no need of its buffer. */
PyObject *output_writer_type(void)
{
    static PyMethodDef methods[] = {{"write", writer_write, METH_O, NULL}, {NULL, NULL, 0, NULL}};
    static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, NULL}};
    static PyType_Spec spec = {
        .name = "_io.BufferedWriter", .flags = Py_TPFLAGS_DEFAULT, .slots = slots};
    PyObject *io = PyImport_ImportModule("_io");
    PyObject *base = io != NULL ? PyObject_GetAttrString(io, "BufferedWriter") : NULL;
    PyObject *bases = base != NULL ? PyTuple_Pack(1, base) : NULL;
    PyObject *type = NULL;

    if (bases != NULL && (own.write = PyObject_GetAttrString(base, "write")) != NULL &&
        (own.flush = PyObject_GetAttrString(base, "flush")) != NULL) {
        type = PyType_FromSpecWithBases(&spec, bases);
    }
    Py_XDECREF(bases);
    Py_XDECREF(base);
    Py_XDECREF(io);
    return type;
}

/* ---- print() ---- */

struct print_call {
    PyObject *file; /* one of ours */
    PyObject *sep;
    PyObject *end;
    bool flush;
    PyObject *parts; /* list of str: what is still to be written */
};

/*
 * Its text is made without code of the program: nothing is printed meanwhile, and it does not take
 * for ever. Types that are static data, hold no other objects and are no sequences: numbers.
 */
static bool is_simple(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);

    return type == &PyUnicode_Type ||
           ((PyType_GetFlags(type) & (Py_TPFLAGS_HEAPTYPE | Py_TPFLAGS_HAVE_GC)) == 0 &&
            !PySequence_Check(o));
}

static int write_part(PyObject *file, PyObject *part)
{
    PyObject *n = PyObject_CallMethodObjArgs(file, own.write_name, part, NULL);

    Py_XDECREF(n);
    return n != NULL ? 0 : -1;
}

/* What can be encoded of the parts is written before the error, as by the interpreter's own. */
static int write_one_by_one(const struct print_call *c)
{
    for (Py_ssize_t i = 0; i < PyList_Size(c->parts); i++) {
        if (write_part(c->file, PyList_GetItem(c->parts, i)) < 0) {
            return -1;
        }
    }
    return 0;
}

static int write_parts(const struct print_call *c)
{
    PyObject *text = PyUnicode_Join(own.empty, c->parts);
    int r = text != NULL ? write_part(c->file, text) : -1;

    Py_XDECREF(text);
    if (r < 0 && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear();
        r = write_one_by_one(c);
    }
    return r == 0 ? PyList_SetSlice(c->parts, 0, PyList_Size(c->parts), NULL) : -1;
}

static int add_part(const struct print_call *c, PyObject *o)
{
    /* Before anything else is printed, or the program is killed. */
    if (!is_simple(o) && PyList_Size(c->parts) > 0 && write_parts(c) < 0) {
        return -1;
    }
    PyObject *text = PyObject_Str(o);
    int r = text != NULL ? PyList_Append(c->parts, text) : -1;
    Py_XDECREF(text);
    return r;
}

/* The common case, without a list. 1: done, 0: it is another case, -1. */
static int print_one(const struct print_call *c, PyObject *args)
{
    if (PyTuple_Size(args) != 1) {
        return 0;
    }
    PyObject *o = PyTuple_GetItem(args, 0);
    PyObject *text = PyObject_Str(o);
    PyObject *line = text != NULL ? PyUnicode_Concat(text, c->end) : NULL;
    int r = line != NULL ? write_part(c->file, line) : -1;

    Py_XDECREF(line);
    Py_XDECREF(text);
    if (r < 0 && c->end != own.newline && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear(); /* nothing was written; what comes before the fault must be */
        return 0;
    }
    return r < 0 ? -1 : 1;
}

static int print_all(const struct print_call *c, PyObject *args)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(args); i++) {
        if ((i > 0 && PyList_Append(c->parts, c->sep) < 0) ||
            add_part(c, PyTuple_GetItem(args, i)) < 0) {
            return -1;
        }
    }
    if (PyList_Append(c->parts, c->end) < 0 || write_parts(c) < 0) {
        return -1;
    }
    if (c->flush) {
        PyObject *done = PyObject_CallMethod(c->file, "flush", NULL);
        Py_XDECREF(done);
        return done != NULL ? 0 : -1;
    }
    return 0;
}

static bool is_ours(PyObject *file)
{
    return file != NULL && (file == own.streams[0] || file == own.streams[1]);
}

/* False: the interpreter's own does it, and reports what is wrong. All borrowed. */
static bool read_call(PyObject *kwargs, struct print_call *ret)
{
    PyObject *key;
    PyObject *value;
    Py_ssize_t at = 0;

    *ret = (struct print_call){.sep = own.space, .end = own.newline};
    while (kwargs != NULL && PyDict_Next(kwargs, &at, &key, &value)) {
        bool is_text = value == Py_None || Py_TYPE(value) == &PyUnicode_Type;

        if (PyUnicode_CompareWithASCIIString(key, "file") == 0) {
            ret->file = value != Py_None ? value : NULL;
        } else if (PyUnicode_CompareWithASCIIString(key, "flush") == 0 && PyBool_Check(value)) {
            ret->flush = value == Py_True;
        } else if (is_text && PyUnicode_CompareWithASCIIString(key, "sep") == 0) {
            ret->sep = value != Py_None ? value : own.space;
        } else if (is_text && PyUnicode_CompareWithASCIIString(key, "end") == 0) {
            ret->end = value != Py_None ? value : own.newline;
        } else {
            return false;
        }
    }
    if (ret->file == NULL) {
        ret->file = PySys_GetObject("stdout");
    }
    return is_ours(ret->file);
}

static PyObject *output_print(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct print_call c;

    (void)self;
    if (!read_call(kwargs, &c)) {
        return PyObject_Call(own.print, args, kwargs);
    }
    Py_INCREF(c.file); /* the text of an object may be code that replaces it */
    int r = c.flush ? 0 : print_one(&c, args);
    if (r == 0) {
        c.parts = PyList_New(0);
        r = c.parts != NULL ? print_all(&c, args) : -1;
        Py_XDECREF(c.parts);
    }
    Py_DECREF(c.file);
    if (r < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* False with an exception set. */
static bool find_own(void)
{
    PyObject *builtins = PyImport_ImportModule("builtins"); /* kept for ever */

    own.print = builtins != NULL ? PyObject_GetAttrString(builtins, "print") : NULL;
    own.closed_name = PyUnicode_FromString("closed");
    own.write_name = PyUnicode_FromString("write");
    own.empty = PyUnicode_FromString("");
    own.space = PyUnicode_FromString(" ");
    own.newline = PyUnicode_FromString("\n");
    for (int i = 0; i < STREAMS; i++) {
        own.buffers[i] = PyObject_GetAttrString(own.streams[i], "buffer");
        if (own.buffers[i] == NULL) {
            return false;
        }
    }
    return own.print != NULL && own.closed_name != NULL && own.write_name != NULL &&
           own.empty != NULL && own.space != NULL && own.newline != NULL;
}

static bool replace_print(void)
{
    static PyMethodDef print = {
        "print", (PyCFunction)(void (*)(void))output_print, METH_VARARGS | METH_KEYWORDS,
        "print($module, /, *args, sep=' ', end='\\n', file=None, flush=False)\n--\n\n"
        "Write the text of each argument to file, with sep between and end behind them."};
    PyObject *builtins = PyImport_ImportModule("builtins"); /* kept for ever */
    PyObject *name = PyUnicode_FromString("builtins");
    PyObject *fresh =
        builtins != NULL && name != NULL ? PyCFunction_NewEx(&print, builtins, name) : NULL;

    return fresh != NULL && PyObject_SetAttrString(builtins, "print", fresh) == 0;
}

/* unbuffer(stdout, stderr): these streams write through; print() to them is one write. */
PyObject *husk_unbuffer(PyObject *self, PyObject *args)
{
    (void)self;
    if (!PyArg_ParseTuple(args, "OO", &own.streams[0], &own.streams[1])) {
        return NULL;
    }
    Py_INCREF(own.streams[0]);
    Py_INCREF(own.streams[1]);
    if (!find_own() || !replace_print()) {
        return NULL;
    }
    (void)setvbuf(stdout, NULL, _IONBF, 0); /* of the C library: for printf() of extensions */
    Py_RETURN_NONE;
}
