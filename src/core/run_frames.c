/* SPDX-License-Identifier: Apache-2.0 */
/* The RUN frame that goes into a box, and the frames that come out; see run.h. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "core/run.h"
#include "core/run_frames.h"

#define FILES_MAX 256
#define VARIABLES_MAX 256
#define VARIABLE_NAME_MAX 255

/*
 * gcc 12's analyzer loses sight of what a result owns once it is stored there; husk_result_free()
 * frees it.
 */
#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

static bool is_relative_plain(const char *name)
{
    char path[1100];

    return name[0] != '/' && str_format(path, sizeof(path), "/%s", name) == 0 &&
           launcher_path_check(path);
}

int run_check_cell(const struct husk_spec *spec, enum husk_language language, struct err *e)
{
    if (spec->kind == HUSK_HANDLER && language == HUSK_SHELL) {
        return err_set(e, ERR_INVALID, "a shell has no handlers: send code without an event");
    }
    if (spec->rich && language == HUSK_SHELL) {
        return err_set(e, ERR_INVALID, "a shell has no rich results");
    }
    if ((spec->auto_print || spec->policy != HUSK_POLICY_NONE || spec->variables != NULL) &&
        language != HUSK_PYTHON) {
        return err_set(e, ERR_INVALID, "this needs a python context");
    }
    return 0;
}

int run_check_language(const struct husk_spec *spec, enum husk_language language, const char *name,
                       struct err *e)
{
    if (spec->kind == HUSK_HANDLER && language == HUSK_SHELL) {
        return err_set(e, ERR_INVALID, "a shell has no handlers: %s cannot run one", name);
    }
    if ((spec->rich || spec->auto_print || spec->policy != HUSK_POLICY_NONE ||
         spec->variables != NULL || spec->handler != NULL) &&
        language != HUSK_PYTHON) {
        return err_set(e, ERR_INVALID, "this needs a python template, %s is none", name);
    }
    return 0;
}

static int check_extras(const struct husk_spec *spec, struct err *e)
{
    if (spec->policy != HUSK_POLICY_NONE && spec->policy != HUSK_POLICY_PYRUNNER) {
        return err_set(e, ERR_INVALID, "there is no policy %d", (int)spec->policy);
    }
    if (spec->auto_print && spec->kind == HUSK_HANDLER) {
        return err_set(e, ERR_INVALID, "auto_print is for scripts and cells, not for handlers");
    }
    for (size_t i = 0; spec->variables != NULL && spec->variables[i] != NULL; i++) {
        size_t n = strlen(spec->variables[i]);
        if (n == 0 || n > VARIABLE_NAME_MAX) {
            return err_set(e, ERR_INVALID, "a variable's name has 1 to %d bytes, not %zu",
                           VARIABLE_NAME_MAX, n);
        }
        if (i == VARIABLES_MAX) {
            return err_set(e, ERR_INVALID, "at most %d variables can be reported", VARIABLES_MAX);
        }
    }
    return 0;
}

int run_check(const struct husk_spec *spec, struct err *e)
{
    if (spec->code == NULL) {
        return err_set(e, ERR_INVALID, "there is no code to run");
    }
    if (spec->code_len > FRAME_CODE_MAX) {
        return err_set(e, ERR_INVALID, "the code is %zu bytes long, at most 4 MiB is possible",
                       spec->code_len);
    }
    for (size_t i = 0; i < spec->n_files; i++) {
        if (!is_relative_plain(spec->files[i].name)) {
            return err_set(e, ERR_INVALID, "file name \"%.200s\" must be relative and without ..",
                           spec->files[i].name);
        }
    }
    for (size_t i = 0; spec->outputs != NULL && spec->outputs[i] != NULL; i++) {
        if (!is_relative_plain(spec->outputs[i]) || i >= FILES_MAX) {
            return err_set(e, ERR_INVALID, "output \"%.200s\" must be relative and without ..",
                           spec->outputs[i]);
        }
    }
    for (size_t i = 0; spec->env != NULL && spec->env[i] != NULL; i++) {
        if (strchr(spec->env[i], '=') == NULL || spec->env[i][0] == '=') {
            return err_set(e, ERR_INVALID, "variable \"%.100s\" must be NAME=value", spec->env[i]);
        }
    }
    return check_extras(spec, e);
}

static int add_all(struct buf *b, enum frame_key key, const char *const *list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        int r = frame_add_str(b, key, list[i]);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int add_files(struct buf *b, const struct husk_spec *spec)
{
    for (size_t i = 0; i < spec->n_files; i++) {
        const struct husk_file *f = &spec->files[i];
        size_t name = strlen(f->name) + 1;
        uint32_t head[2] = {KEY_PUT, (uint32_t)(name + f->len)};

        if (f->len > FRAME_TO_BOX_MAX || buf_add(b, head, sizeof(head)) < 0 ||
            buf_add(b, f->name, name) < 0 || buf_add(b, f->data, f->len) < 0) {
            return -EMSGSIZE;
        }
    }
    return 0;
}

/* Nothing for a plain run: the runner takes its shortest way only when there is none of these. */
static int add_extras(struct buf *b, const struct husk_spec *spec)
{
    static const uint8_t pyrunner = FRAME_POLICY_PYRUNNER;

    if ((spec->rich && frame_add(b, KEY_RICH, "", 0) < 0) ||
        (spec->auto_print && frame_add(b, KEY_PRINT, "", 0) < 0) ||
        (spec->artifacts && frame_add(b, KEY_ARTIFACTS, "", 0) < 0) ||
        (spec->policy == HUSK_POLICY_PYRUNNER && frame_add(b, KEY_POLICY, &pyrunner, 1) < 0)) {
        return -EMSGSIZE;
    }
    return add_all(b, KEY_VARIABLE, spec->variables);
}

int run_frame(const struct husk_spec *spec, const struct limits *limits,
              const uint8_t token[FRAME_TOKEN_SIZE], struct buf *frame, struct err *e)
{
    const uint8_t kind = (uint8_t)spec->kind;
    struct buf *b = frame;

    if (frame_begin(b, FRAME_RUN, token) < 0 || frame_add(b, KEY_KIND, &kind, 1) < 0 ||
        frame_add_str(b, KEY_NAME, spec->name != NULL ? spec->name : "<cell>") < 0 ||
        frame_add(b, KEY_CODE, spec->code, spec->code_len) < 0 ||
        add_all(b, KEY_ARG, spec->args) < 0 || add_all(b, KEY_ENV, spec->env) < 0 ||
        add_all(b, KEY_GET, spec->outputs) < 0 || add_extras(b, spec) < 0 ||
        add_files(b, spec) < 0) {
        return err_set(e, ERR_INVALID, "code, arguments and files are too large together");
    }
    if (spec->kind == HUSK_HANDLER &&
        (frame_add_str(b, KEY_EVENT, spec->event != NULL ? spec->event : "{}") < 0 ||
         frame_add_str(b, KEY_CONTEXT, spec->context != NULL ? spec->context : "{}") < 0 ||
         frame_add_u64(b, KEY_TIMEOUT_MS, limits->timeout_ms) < 0 ||
         (spec->handler != NULL && frame_add_str(b, KEY_HANDLER, spec->handler) < 0))) {
        return err_set(e, ERR_INVALID, "event and context are too large");
    }
    return frame_end(b) < 0 ? err_set(e, ERR_INVALID, "the request is too large") : 0;
}

/* Text from a box: it is made printable where it is shown. */
char *run_copy_field(const struct frame_field *f)
{
    char *s = malloc((size_t)f->len + 1);

    if (s != NULL) {
        memcpy(s, f->data, f->len);
        s[f->len] = '\0';
    }
    return s;
}

static void set(char **to, const struct frame_field *f)
{
    free(*to);
    *to = run_copy_field(f);
}

static void take_value(struct husk_result *r, struct frame_field f)
{
    if (f.len > FRAME_VALUE_MAX) {
        f.len = FRAME_VALUE_MAX;
        r->displays_dropped = true;
    }
    set(&r->value, &f);
}

/*
 * The caller will look into it, so it has to be an object. Python can say what jansson cannot take
 * (a NUL in a name): then there is nothing to report, and no rule is broken.
 */
static bool take_variables(struct run *run, const struct frame_field *f)
{
    json_t *object;

    if (run->spec->variables == NULL || f->len > FRAME_VARIABLES_MAX) {
        return false;
    }
    object = json_loadb(f->data, f->len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    if (json_is_object(object)) {
        set(&run->result->variables_json, f);
    } else {
        run->result->variables_dropped = true;
    }
    json_decref(object);
    return true;
}

/* Names of files: a list of texts, or nothing is reported. */
static bool take_artifacts(struct run *run, const struct frame_field *f)
{
    if (!run->spec->artifacts || f->len > FRAME_ARTIFACTS_MAX) {
        return false;
    }
    json_t *names = json_loadb(f->data, f->len, JSON_ALLOW_NUL, NULL);
    bool good = json_is_array(names);
    for (size_t i = 0; i < json_array_size(names); i++) {
        good = good && json_is_string(json_array_get(names, i));
    }
    if (good) {
        set(&run->result->artifacts_json, f);
    }
    json_decref(names);
    return true;
}

/* False: not what a runner says. */
static bool take_done(struct run *run, const char *body, size_t len)
{
    struct husk_result *r = run->result;
    struct frame_field f;
    size_t at = 0;
    int more;

    while ((more = frame_next(body, len, &at, &f)) > 0) {
        switch (f.key) {
        case KEY_EXIT:
            if (frame_field_u32(&f, &run->exit_code) < 0 || run->exit_code > 255) {
                return false;
            }
            break;
        case KEY_SIGNAL:
            if (frame_field_u32(&f, &run->signal) < 0 || run->signal > 64) {
                return false;
            }
            break;
        case KEY_VALUE:
            take_value(r, f);
            break;
        case KEY_VALUE_JSON:
            set(&r->value_json, &f);
            break;
        case KEY_ERROR_TYPE:
            set(&r->error.type, &f);
            break;
        case KEY_ERROR_MESSAGE:
            set(&r->error.message, &f);
            break;
        case KEY_TRACEBACK:
            set(&r->error.traceback, &f);
            break;
        case KEY_VARIABLES:
            if (!take_variables(run, &f)) {
                return false;
            }
            break;
        case KEY_ARTIFACTS:
            if (!take_artifacts(run, &f)) {
                return false;
            }
            break;
        case KEY_DROPPED:
            r->variables_dropped = true;
            break;
        default:
            break;
        }
    }
    return more == 0 && run_step(run, RUN_DONE);
}

/*
 * Asked for more often than it came: names decide where a caller writes, and content what it holds.
 */
static bool is_awaited(const struct run *run, const char *name)
{
    const char *const *asked = run->spec->outputs;
    size_t wanted = 0;

    for (size_t i = 0; asked != NULL && asked[i] != NULL; i++) {
        wanted += str_eq(asked[i], name);
    }
    for (size_t i = 0; i < run->result->n_files; i++) {
        wanted -= str_eq(run->result->files[i].name, name);
    }
    return wanted > 0;
}

static bool take_file(struct run *run, const char *body, size_t len)
{
    struct husk_result *r = run->result;
    struct husk_output_file file = {0};
    struct frame_field f;

    for (size_t at = 0; frame_next(body, len, &at, &f) > 0;) {
        if (f.key == KEY_NAME) {
            set(&file.name, &f);
        } else if (f.key == KEY_DATA) {
            set(&file.data, &f);
            file.len = f.len;
        } else if (f.key == KEY_ERROR_MESSAGE) {
            set(&file.error, &f);
        }
    }
    /* A box may answer what was asked, no more. */
    bool ok = file.name != NULL && (file.data != NULL) != (file.error != NULL) &&
              r->n_files < FILES_MAX && is_awaited(run, file.name);
    struct husk_output_file *files =
        ok ? reallocarray(r->files, r->n_files + 1, sizeof(*files)) : NULL;
    if (files == NULL) {
        free(file.name);
        free(file.data);
        free(file.error);
        return false;
    }
    r->files = files;
    r->files[r->n_files++] = file;
    return true;
}

bool run_take_frame(struct run *run, const struct frame_head *head, const char *body)
{
    struct frame_field f;

    /* Once the box is ready user code may be speaking, and that has nothing to say about set-up. */
    if (head->type == FRAME_FAILED) {
        if (!run_step(run, RUN_FAILED)) {
            return false;
        }
        (void)str_copy(run->failure, sizeof(run->failure), "the box could not start the program");
        for (size_t at = 0; frame_next(body, head->len, &at, &f) > 0;) {
            if (f.key == KEY_ERROR_MESSAGE) {
                str_printable(run->failure, sizeof(run->failure), f.data, f.len);
            }
        }
        return true;
    }
    if (head->type == FRAME_READY) {
        return run_step(run, RUN_RUNNING);
    }
    /* The token makes a frame ours: writing plausible bytes to every descriptor is not enough. */
    if (memcmp(head->token, run->token, sizeof(run->token)) != 0) {
        return false;
    }
    switch (head->type) {
    case FRAME_DONE:
        return take_done(run, body, head->len);
    case FRAME_FILE:
        return take_file(run, body, head->len);
    case FRAME_DISPLAY:
        return run_take_display(run, body, head->len);
    default:
        return false;
    }
}
