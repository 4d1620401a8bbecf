/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DISPLAY frames, taken into a run's result. Hostile input: a frame is checked whole before
 * anything is copied, and what a runner would not have said is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "core/result_parts.h"
#include "core/run.h"
#include "core/run_frames.h"

/*
 * gcc 12's analyzer loses sight of what a result owns once it is stored there; husk_result_free()
 * frees it.
 */
#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

/* What a frame holds, once it has been checked. */
struct checked {
    bool dropped;
    size_t n_forms;
    struct frame_field types[FRAME_FORMS_MAX];
    struct frame_field data[FRAME_FORMS_MAX];
};

/*
 * type/subtype of token characters (RFC 9110), lower case: one spelling, so that comparing is
 * enough.
 */
static bool is_mime(const struct frame_field *f)
{
    static const char token[] = "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~";
    const char *slash = memchr(f->data, '/', f->len);

    if (f->len > FRAME_MIME_MAX || slash == NULL || slash == f->data ||
        slash == f->data + f->len - 1) {
        return false;
    }
    for (const char *p = f->data; p < f->data + f->len; p++) {
        if (p != slash && (*p == '\0' || strchr(token, *p) == NULL)) {
            return false;
        }
    }
    return true;
}

static bool ends_with(const char *s, size_t n, const char *end)
{
    size_t m = strlen(end);

    return n >= m && memcmp(s + n - m, end, m) == 0;
}

bool result_mime_is_text(const char *type, size_t len)
{
    static const char *const subtypes[] = {"/json", "+json", "/xml", "+xml", "/javascript"};

    for (size_t i = 0; i < ARRAY_LEN(subtypes); i++) {
        if (ends_with(type, len, subtypes[i])) {
            return true;
        }
    }
    return len >= 5 && memcmp(type, "text/", 5) == 0;
}

/* One type and its data; a type comes once. */
static bool check_form(struct checked *c, const struct frame_field *type,
                       const struct frame_field *data)
{
    if (c->n_forms == FRAME_FORMS_MAX || type->key != KEY_MIME || data->key != KEY_DATA ||
        !is_mime(type) ||
        (result_mime_is_text(type->data, type->len) && !str_is_utf8(data->data, data->len))) {
        return false;
    }
    for (size_t i = 0; i < c->n_forms; i++) {
        if (c->types[i].len == type->len && memcmp(c->types[i].data, type->data, type->len) == 0) {
            return false;
        }
    }
    c->types[c->n_forms] = *type;
    c->data[c->n_forms++] = *data;
    return true;
}

/* A number, then "dropped" alone, or one form and more. */
static bool check(const char *body, size_t len, uint32_t number, struct checked *ret)
{
    struct frame_field f;
    struct frame_field data;
    uint32_t claimed;
    size_t at = 0;
    int more;

    ret->dropped = false;
    ret->n_forms = 0;
    if (frame_next(body, len, &at, &f) <= 0 || f.key != KEY_SEQ ||
        frame_field_u32(&f, &claimed) < 0 || claimed != number) {
        return false;
    }
    while ((more = frame_next(body, len, &at, &f)) > 0) {
        if (f.key == KEY_DROPPED && ret->n_forms == 0 && !ret->dropped) {
            ret->dropped = true;
        } else if (ret->dropped || frame_next(body, len, &at, &data) <= 0 ||
                   !check_form(ret, &f, &data)) {
            return false;
        }
    }
    return more == 0 && (ret->dropped || ret->n_forms > 0);
}

static bool fits(const struct husk_result *r, const struct checked *c)
{
    size_t bytes = 0;

    for (size_t i = 0; i < r->n_displays; i++) {
        for (size_t j = 0; j < r->displays[i].n_forms; j++) {
            bytes += r->displays[i].forms[j].len;
        }
    }
    for (size_t i = 0; i < c->n_forms; i++) {
        bytes += c->data[i].len;
    }
    return r->n_displays < FRAME_DISPLAYS_MAX && bytes <= FRAME_DISPLAY_BYTES_MAX;
}

static bool copy_forms(struct husk_display *d, const struct checked *c)
{
    d->forms = calloc(c->n_forms, sizeof(*d->forms));
    for (size_t i = 0; d->forms != NULL && i < c->n_forms; i++) {
        struct husk_mime *form = &d->forms[d->n_forms++];
        form->type = run_copy_field(&c->types[i]);
        form->data = run_copy_field(&c->data[i]);
        form->len = c->data[i].len;
        if (form->type == NULL || form->data == NULL) {
            return false;
        }
    }
    return d->forms != NULL;
}

static bool append(struct husk_result *r, const struct checked *c)
{
    struct husk_display d = {0};
    struct husk_display *all = reallocarray(r->displays, r->n_displays + 1, sizeof(*all));

    if (all != NULL) {
        r->displays = all;
    }
    if (all == NULL || !copy_forms(&d, c)) {
        run_display_release(&d);
        return false;
    }
    r->displays[r->n_displays++] = d;
    return true;
}

void run_display_release(struct husk_display *d)
{
    for (size_t i = 0; i < d->n_forms; i++) {
        free(d->forms[i].type);
        free(d->forms[i].data);
    }
    free(d->forms);
}

bool run_take_display(struct run *run, const char *body, size_t len)
{
    struct husk_result *r = run->result;
    uint32_t number = (uint32_t)r->n_displays + r->displays_dropped;
    struct checked c;

    if (!run->spec->rich || !check(body, len, number, &c)) {
        return false;
    }
    if (c.dropped) {
        /* Reported once: a loop of displays must not become a loop of frames. */
        bool first = !r->displays_dropped;
        r->displays_dropped = true;
        return first;
    }
    if (!fits(r, &c) || !append(r, &c)) {
        return false;
    }
    if (run->hooks != NULL && run->hooks->on_display != NULL && !run->replaying) {
        run->hooks->on_display(run->hooks->user, body, len);
    }
    return true;
}
