/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _husk: the cells of a session, with as little Python as possible; see module.h.
 *
 * A plain cell that ends without a value and without an exception is served here, from its request
 * to its DONE frame; for everything else runner.py gets the request and what is known so far.
 */
#define PY_SSIZE_T_CLEAN
#include "runner/module.h"

#include <signal.h>

#include "base/str.h"
#include "runner/interrupt.h"

/* Python removes the arguments of an earlier cell. */
static bool has_arguments(void)
{
    PyObject *argv = PySys_GetObject("argv"); /* borrowed */

    return argv == NULL || !PyList_Check(argv) || PyList_Size(argv) != 1;
}

/* True: a pending signal raised *ret. */
static bool take_interrupt(PyObject **ret)
{
    if (PyErr_CheckSignals() == 0) {
        return false;
    }
    *ret = plain_take_exception();
    return true;
}

static enum rest serve(const struct buf *body, bool may_be_plain, PyObject **ret_what)
{
    struct plain plain;
    enum rest rest = REST_ALL;
    char name[SOURCE_NAME_MAX];

    if (plain_read(body, &plain) && may_be_plain && !has_arguments()) {
        if (str_eq(plain.name, SOURCE_NAME)) {
            source_cell_name(name);
            plain_rename(&plain, name);
        }
        rest = plain.name != NULL ? plain_run(&plain, module_space(), ret_what) : REST_ALL;
    }
    if (rest == REST_ALL) {
        plain_release(&plain);
    } else {
        source_keep(&plain);
    }
    /* A process that the cell forked gets here as well: it must not answer. */
    if (rest != REST_NOTHING || !module_run_is_open()) {
        return rest == REST_NOTHING ? REST_VALUE : rest;
    }
    plain_flush();
    (void)interrupt_end();
    return take_interrupt(ret_what) ? REST_ERROR : REST_NOTHING;
}

/* A cell that was interrupted before it was read does not begin, unless a handler ignores it. */
static enum rest begin(const struct buf *body, bool may_be_plain, PyObject **ret_what)
{
    if (interrupt_begin(module_run.token)) {
        (void)raise(SIGINT);
        if (take_interrupt(ret_what)) {
            return REST_ERROR;
        }
    }
    return serve(body, may_be_plain, ret_what);
}

/*
 * cell(may_be_plain): false while variables of an earlier cell are in the environment, which Python
 * removes.
 */
PyObject *husk_cell(PyObject *self, PyObject *args)
{
    int may_be_plain;

    (void)self;
    if (!PyArg_ParseTuple(args, "p", &may_be_plain)) {
        return NULL;
    }
    for (;;) {
        struct fd_set_msg fds = {.n = 0};
        struct buf *body;
        PyObject *what = NULL;
        enum rest rest = REST_ALL;

        int r = module_wait(&body, &fds);
        if (r < 0) {
            return PyErr_Occurred() != NULL ? NULL : module_errno(r);
        }
        if (r == 0) {
            Py_RETURN_NONE;
        }
        if (module_run.type == FRAME_RUN) {
            module_run_begin(body);
            source_next_cell();
        }
        int fd = module_place_fds(&module_run, &fds);
        if (module_run.type == FRAME_RUN) {
            rest = begin(body, may_be_plain, &what);
        }
        if (rest != REST_NOTHING) {
            return Py_BuildValue("NIi", module_hand_over(rest, what, body),
                                 (unsigned)module_run.type, fd);
        }
        module_run_end();
        /*
         * The result leaves first; no thread of Python's runs before the output is closed (see
         * husk_done).
         */
        r = plain_done();
        r = r == 0 ? module_mute(NULL) : r;
        if (r < 0) {
            return module_errno(r);
        }
    }
}
