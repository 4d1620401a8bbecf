/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _husk: the one run of a single-use box, with as little Python as possible.
 *
 * Every Python function that runs in a new box touches pages that have to be copied first, at a
 * microsecond or two each. The common case (code that ends without an exception and without a
 * value) is served here from the request to its DONE frame; everything else goes back to runner.py
 * with what is known so far.
 */
#define PY_SSIZE_T_CLEAN
#include "runner/module.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "runner/abort.h"
#include "runner/control.h"
#include "runner/hotset.h"
#include "runner/zygote.h"
#include "wire/launcher_msg.h"

/* Python's part of the work, handed over before memory is frozen. Owned for ever. */
static struct {
    PyObject *space;                /* globals of the code that runs */
    PyObject *count_threads;        /* _thread._count: all but the first one */
    PyObject *count_exit_functions; /* atexit._ncallbacks */
    PyObject *
        /* called first in a new box: reseed, warm-up of the template; None: nothing */
        in_box;
    PyObject *may_break_a_rule; /* of policy.py */
} given;

PyObject *module_space(void)
{
    return given.space;
}

/* With a line that names an encoding, the compiler would read other words than policy.py does. */
bool module_may_break_a_rule(const char *code)
{
    if (strstr(code, "coding") != NULL) {
        return true;
    }
    PyObject *answer = PyObject_CallFunction(given.may_break_a_rule, "s", code);
    bool may_not = answer == Py_False;

    Py_XDECREF(answer);
    PyErr_Clear(); /* for example not text: Python reports it */
    return !may_not;
}

static bool is_none(PyObject *count)
{
    PyObject *n = PyObject_CallObject(count, NULL);
    bool none = n != NULL && PyLong_AsLong(n) == 0;

    Py_XDECREF(n);
    PyErr_Clear();
    return none;
}

/*
 * True if a normal interpreter would wait for nothing and call nothing at its end, and no thread
 * still uses what it frees.
 */
static bool ends_plainly(void)
{
    return is_none(given.count_exit_functions) && is_none(given.count_threads);
}

/* The steps of a first short cell, up to its answer. */
static bool first_cell(void)
{
    const struct plain cell = {.kind = FRAME_CELL, .name = SOURCE_NAME, .code = "print(1+1)"};
    PyObject *what = NULL;

    enum rest rest = plain_run(&cell, given.space, &what);
    (void)ends_plainly();
    module_finalise(given.space);
    plain_flush();
    Py_XDECREF(what);
    return rest == REST_NOTHING;
}

/* New seeds, and what the template wants done in every box. */
static bool call_in_box(bool warm)
{
    PyObject *done = PyObject_CallFunction(given.in_box, "i", (int)warm);

    Py_XDECREF(done);
    return done != NULL;
}

/* What a new box does first. Nothing of it is part of the run's output. */
static int settle(bool warm)
{
    int saved[3];
    bool ok = true;

    module_seed_libc();
    if (given.in_box == Py_None && !warm) {
        return 0;
    }
    if (module_mute(saved) < 0) {
        return -1;
    }
    if (given.in_box != Py_None) {
        ok = call_in_box(warm);
    }
    if (warm) {
        ok = ok && first_cell();
    }
    return module_unmute(saved) < 0 || !ok ? -1 : 0;
}

static PyObject *raise_errno(void)
{
    return PyErr_Occurred() != NULL ? NULL : module_errno(-errno);
}

/* sys.argv of a program without arguments. Most have the name that runner.py gave them all. */
static void name_program(const char *name)
{
    if (str_eq(name, SOURCE_NAME)) {
        return;
    }
    PyObject *text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace");
    PyObject *argv = text != NULL ? Py_BuildValue("[N]", text) : NULL;

    if (argv == NULL || PySys_SetObject("argv", argv) < 0) {
        PyErr_Clear();
    }
    Py_XDECREF(argv);
}

/* Waits for the run and serves it: (rest, value or exception, fields), or never. */
static PyObject *serve_once(bool cool)
{
    struct fd_set_msg fds = {.n = 0};
    struct plain plain; /* never freed: it is the only one */
    struct buf *body;
    PyObject *what = NULL;

    if (module_wait(&body, &fds) <= 0 || module_run.type != FRAME_RUN) {
        _exit(0); /* thrown away unused */
    }
    fd_set_release(&fds);
    if (cool) { /* other boxes did this before they were parked */
        hotset_touch();
        if (settle(false) < 0) {
            return raise_errno();
        }
    }
    module_run_begin(body);
    Py_ssize_t names = module_count_names(given.space);
    enum rest rest = REST_ALL;
    if (plain_read(body, &plain)) {
        name_program(plain.name);
        rest = plain_run(&plain, given.space, &what);
    }
    /* A process that the program forked gets here as well: it must not answer. */
    if (rest == REST_NOTHING && (!module_run_is_open() || !ends_plainly())) {
        rest = REST_VALUE;
    }
    if (rest != REST_NOTHING) {
        return module_hand_over(rest, what, body);
    }
    bool has_more = module_count_names(given.space) != names;
    module_finalise(given.space);
    if (has_more) {
        module_flush_files();
    }
    plain_flush();
    if (!module_run_is_open()) {
        _exit(0); /* forked by a finaliser */
    }
    (void)plain_done();
    module_wait_for_end();
    _exit(0);
}

/* prepare(space, count_threads, count_exit_functions, in_box, may_break_a_rule) */
PyObject *husk_prepare(PyObject *self, PyObject *args)
{
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOO", &given.space, &given.count_threads,
                          &given.count_exit_functions, &given.in_box, &given.may_break_a_rule)) {
        return NULL;
    }
    Py_INCREF(given.space);
    Py_INCREF(given.count_threads);
    Py_INCREF(given.count_exit_functions);
    Py_INCREF(given.in_box);
    Py_INCREF(given.may_break_a_rule);
    if (!module_finalise_prepare()) {
        return NULL;
    }
    if (!first_cell()) { /* makes what is made lazily, before memory is frozen */
        PyErr_SetString(PyExc_RuntimeError, "a first print did not end as it should");
        return NULL;
    }
    Py_RETURN_NONE;
}

static struct zygote_child child; /* not on the stack: nothing above husk_zygote() may move */

PyObject *husk_rehearse(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    if (hotset_rehearse()) {
        /* What every box writes on its way to its first run. */
        child = (struct zygote_child){0};
        abort_report(module_run.token);
        struct buf body = {.max = 1};
        (void)buf_reserve(&body, 1); /* as for the request */
        buf_release(&body);
        /*
         * Not the template's warm-up: a box that is not warmed would pay for pages it may never
         * need.
         */
        (void)settle(false);
        (void)first_cell();
        hotset_save();
    }
    Py_RETURN_NONE;
}

PyObject *husk_zygote(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    zygote_serve(&child);
    if (child.mode == LAUNCHER_SESSION) {
        return Py_BuildValue("iO[]", (int)REST_SESSION, Py_None);
    }
    bool cool = child.warmth == LAUNCHER_COOL;
    if (!cool && settle(child.warmth == LAUNCHER_WARM) < 0) {
        return raise_errno();
    }
    int r = module_ready();
    return r < 0 ? module_errno(r) : serve_once(cool);
}
