/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _husk: the source of code that C runs, for linecache, which finds no file of it; see module.h.
 *
 * It costs nothing until a traceback is printed (sources.py). Each cell of a session has a name of
 * its own, so that a function of an earlier cell shows its own lines.
 */
#define PY_SSIZE_T_CLEAN
#include "runner/module.h"

#include "base/str.h"

#define CELLS_KEPT 1000 /* also in sources.py */

static struct plain running;          /* names and code are borrowed */
static struct plain kept[CELLS_KEPT]; /* of earlier cells; owned */
static uint32_t cells;

void source_next_cell(void)
{
    cells++;
}

void source_cell_name(char name[SOURCE_NAME_MAX])
{
    if (cells < 2 || str_format(name, SOURCE_NAME_MAX, "<cell %u>", cells) < 0) {
        (void)str_copy(name, SOURCE_NAME_MAX, SOURCE_NAME);
    }
}

void source_running(const struct plain *p)
{
    running = *p;
}

void source_keep(struct plain *p)
{
    struct plain *place = &kept[cells % CELLS_KEPT];

    plain_release(place);
    *place = *p;
    *p = (struct plain){0};
    running = (struct plain){0};
}

static const char *find(const char *name)
{
    if (running.name != NULL && str_eq(running.name, name)) {
        return running.code;
    }
    for (uint32_t i = 0; i <= cells && i < CELLS_KEPT; i++) {
        const struct plain *p = &kept[(cells - i) % CELLS_KEPT];
        if (p->name != NULL && str_eq(p->name, name)) {
            return p->code;
        }
    }
    return NULL;
}

PyObject *husk_source(PyObject *self, PyObject *args)
{
    const char *name;

    (void)self;
    if (!PyArg_ParseTuple(args, "s", &name)) {
        return NULL;
    }
    const char *code = find(name);
    if (code == NULL) {
        Py_RETURN_NONE;
    }
    return PyBytes_FromString(code);
}

PyObject *husk_cell_name(PyObject *self, PyObject *args)
{
    char name[SOURCE_NAME_MAX];

    (void)self;
    (void)args;
    source_cell_name(name);
    return PyUnicode_FromString(name);
}
