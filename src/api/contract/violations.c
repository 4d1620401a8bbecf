/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Violations: where they are, what they say, and both forms in which clients read them; see
 * schema.h.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/contract/check.h"
#include "base/str.h"

#define NAME_SHOWN 64 /* bytes of a name that the client chose */

void walk_enter(struct walk *w, const char *name, size_t index)
{
    if (w->depth < API_LOC_MAX) {
        w->steps[w->depth] = (struct api_step){name, index};
    }
    w->depth++;
}

void walk_leave(struct walk *w)
{
    w->depth--;
}

bool walk_is_full(const struct walk *w)
{
    return w->v->total > API_VIOLATIONS_MAX;
}

/* "resources.cpu", "args[3]"; "the body" for the whole of it. Returns its length. */
static size_t place_text(const struct api_violation *v, char *ret, size_t size)
{
    size_t used = 0;

    if (v->n_steps == 0) {
        return (size_t)snprintf(ret, size, "the %s", v->in);
    }
    for (size_t i = 0; i < v->n_steps && used < size; i++) {
        const struct api_step *step = &v->steps[i];
        char name[NAME_SHOWN];

        if (step->name == NULL) {
            used += (size_t)snprintf(ret + used, size - used, "[%zu]", step->index);
            continue;
        }
        str_printable(name, sizeof(name), step->name, strlen(step->name));
        used += (size_t)snprintf(ret + used, size - used, "%s%s", i > 0 ? "." : "", name);
    }
    return MIN(used, size - 1);
}

/* A violation at the place where the walk is; NULL when the list is full. */
static struct api_violation *add(struct walk *w, const char *type)
{
    struct api_violations *v = w->v;

    v->total++;
    if (v->n == API_VIOLATIONS_MAX) {
        return NULL;
    }
    struct api_violation *one = &v->list[v->n++];
    one->in = w->in;
    one->type = type;
    one->n_steps = (uint8_t)MIN(w->depth, (size_t)API_LOC_MAX);
    memcpy(one->steps, w->steps, sizeof(one->steps));
    return one;
}

/* A cut in the middle of a character would make the message no UTF-8 any more. */
static void cut_cleanly(char *text)
{
    size_t n = strlen(text);
    size_t at = 0;

    while (at < n) {
        size_t len = str_utf8_len(text + at, n - at);
        if (len == 0) {
            text[at] = '\0';
            return;
        }
        at += len;
    }
}

void walk_report(struct walk *w, const char *type, const char *fmt, ...)
{
    struct api_violation *one = add(w, type);
    va_list ap;

    if (one == NULL) {
        return;
    }
    size_t used = place_text(one, one->message, sizeof(one->message) / 2);
    one->message[used++] = ' ';
    va_start(ap, fmt);
    vsnprintf(one->message + used, sizeof(one->message) - used, fmt, ap);
    va_end(ap);
    cut_cleanly(one->message);
}

void walk_report_own(struct walk *w, const char *type, const char *message)
{
    struct api_violation *one = add(w, type);

    if (one != NULL) {
        snprintf(one->message, sizeof(one->message), "%s", message);
        cut_cleanly(one->message);
    }
}

int api_violation_add(struct api_violations *v, const char *in, const char *name, const char *type,
                      const char *message)
{
    struct walk w = {.v = v, .in = in};

    if (name != NULL) {
        walk_enter(&w, name, 0);
    }
    walk_report_own(&w, type, message);
    return -1;
}

void api_violations_text(const struct api_violations *v, char *ret, size_t size)
{
    size_t used = 0;

    if (size == 0) {
        return;
    }
    ret[0] = '\0';
    for (size_t i = 0; i < v->n && used < size; i++) {
        used += (size_t)snprintf(ret + used, size - used, "%s%s", i > 0 ? "; " : "",
                                 v->list[i].message);
    }
    if (v->total > v->n && used < size) {
        snprintf(ret + used, size - used, "; and more");
    }
    cut_cleanly(ret);
}

static json_t *loc_json(const struct api_violation *v)
{
    json_t *loc = json_array();

    json_array_append_new(loc, json_string(v->in));
    for (size_t i = 0; i < v->n_steps; i++) {
        const struct api_step *step = &v->steps[i];
        json_array_append_new(loc, step->name != NULL ? json_string(step->name)
                                                      : json_integer((json_int_t)step->index));
    }
    return loc;
}

json_t *api_violations_json(const struct api_violations *v)
{
    json_t *list = json_array();

    for (size_t i = 0; i < v->n; i++) {
        const struct api_violation *one = &v->list[i];
        json_array_append_new(list, json_pack("{s:o, s:s, s:s}", "loc", loc_json(one), "msg",
                                              one->message, "type", one->type));
    }
    return json_pack("{s:o}", "detail", list);
}
