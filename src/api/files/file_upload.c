/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of uploads as sources; see file_upload.h. */
#include "api/files/file_upload.h"

#include <errno.h>

#include "base/str.h"

#define SKIP_SIZE 4096

ssize_t file_upload_next(void *user, void *buf, size_t size)
{
    return call_read(user, buf, size);
}

void file_form_refuse(struct api_call *call, const char *type, const char *message)
{
    struct api_violations v = {0};

    (void)api_violation_add(&v, "body", "file", type, message);
    call_reply_invalid(call, &v);
}

static int refuse_part(struct api_call *call, const char *name)
{
    struct api_violations v = {0};

    (void)api_violation_add(&v, "body", name, "extra_forbidden",
                            "only one part, file, is expected");
    call_reply_invalid(call, &v);
    return -EINVAL;
}

static int skip_part(struct api_call *call)
{
    char buf[SKIP_SIZE];
    ssize_t n;

    do {
        n = call_read(call, buf, sizeof(buf));
    } while (n > 0);
    return (int)n;
}

int file_form_begin(struct file_form *form, struct api_call *call, bool is_strict)
{
    const char *name;
    const char *filename;
    int r;

    *form = (struct file_form){.call = call, .is_strict = is_strict};
    while ((r = call_next_part(call, &name, &filename)) > 0) {
        if (str_eq(name, "file")) {
            if (filename != NULL &&
                str_copy(form->filename, sizeof(form->filename), filename) < 0) {
                file_form_refuse(call, "string_too_long", "the file name is too long");
                return -1;
            }
            return 0;
        }
        if (is_strict ? refuse_part(call, name) < 0 : skip_part(call) < 0) {
            return -1;
        }
    }
    if (r == 0) {
        file_form_refuse(call, "missing", "file is required");
    }
    return -1;
}

/*
 * Behind the part: nothing, or what may be skipped. A second file would leave open which one is
 * meant.
 */
static int rest_of_form(const struct file_form *form)
{
    const char *name;
    const char *filename;
    int r;

    while ((r = call_next_part(form->call, &name, &filename)) > 0) {
        if (form->is_strict || str_eq(name, "file")) {
            return refuse_part(form->call, name);
        }
        if (skip_part(form->call) < 0) {
            return -1;
        }
    }
    return r;
}

ssize_t file_form_next(void *user, void *buf, size_t size)
{
    const struct file_form *form = user;
    ssize_t n = call_read(form->call, buf, size);

    return n != 0 ? n : rest_of_form(form);
}
