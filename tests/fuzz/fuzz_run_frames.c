/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of core/run_frames.h: all that a hostile box can send during a run, from the frames
 * to the JSON that the result is told in.
 */
#include "core/run_frames.h"

#include <jansson.h>
#include <string.h>

#include "base/str.h"
#include "core/run.h"
#include "fuzz.h"

#define MOST 65536

static const char *const outputs[] = {"a", "b/c", NULL};
static const char *const variables[] = {"x", NULL};
#define ASKED (ARRAY_LEN(outputs) - 1)

/* Takes frame after frame as the engine does. False: the box broke the rules. */
static bool feed(struct run *run, const char *data, size_t size)
{
    struct frame_head head;

    while ((run->phase == RUN_STARTING || run->phase == RUN_RUNNING) &&
           frame_parse_head(data, size, MOST, &head) == 1 && size - sizeof(head) >= head.len) {
        bool foreign = head.type != FRAME_READY && head.type != FRAME_FAILED &&
                       memcmp(head.token, run->token, sizeof(head.token)) != 0;
        bool taken = run_take_frame(run, &head, data + sizeof(head));
        FUZZ_CHECK(!(foreign && taken)); /* a frame without the token is never taken */
        if (!taken) {
            return false;
        }
        data += sizeof(head) + head.len;
        size -= sizeof(head) + head.len;
    }
    return true;
}

/* What a caller may rely on without looking. */
static void check_displays(const struct husk_result *r)
{
    size_t bytes = 0;

    FUZZ_CHECK(r->n_displays <= FRAME_DISPLAYS_MAX);
    for (size_t i = 0; i < r->n_displays; i++) {
        const struct husk_display *d = &r->displays[i];
        FUZZ_CHECK(d->n_forms > 0 && d->n_forms <= FRAME_FORMS_MAX);
        for (size_t j = 0; j < d->n_forms; j++) {
            const char *slash = strchr(d->forms[j].type, '/');
            FUZZ_CHECK(strlen(d->forms[j].type) <= FRAME_MIME_MAX);
            FUZZ_CHECK(slash != NULL && slash[1] != '\0' && strchr(slash + 1, '/') == NULL);
            FUZZ_CHECK(strpbrk(d->forms[j].type, " \t\r\n\";,") == NULL);
            FUZZ_CHECK(d->forms[j].data[d->forms[j].len] == '\0');
            bytes += d->forms[j].len;
        }
    }
    FUZZ_CHECK(bytes <= FRAME_DISPLAY_BYTES_MAX);
}

static void check_taken(const struct run *run)
{
    const struct husk_result *r = run->result;

    FUZZ_CHECK(run->failure[0] == '\0' || memchr(run->failure, '\0', sizeof(run->failure)) != NULL);
    if (run->phase == RUN_DONE) { /* else it is not looked at */
        FUZZ_CHECK(run->exit_code <= 255 && run->signal <= 64);
    }
    FUZZ_CHECK(r->n_files <= ASKED); /* each once, and no other */
    for (size_t i = 0; i < r->n_files; i++) {
        FUZZ_CHECK(str_eq(r->files[i].name, outputs[0]) || str_eq(r->files[i].name, outputs[1]));
        FUZZ_CHECK(r->files[i].data != NULL || r->files[i].error != NULL);
    }
    check_displays(r);
    FUZZ_CHECK(r->variables_json == NULL || strlen(r->variables_json) <= FRAME_VARIABLES_MAX);
}

/* The verdict and its JSON, whatever the box said. */
static void check_told(struct run *run, enum run_verdict verdict)
{
    AUTO_FREE char *text = NULL;
    json_error_t why;

    run_conclude(run, verdict, 0, false);
    FUZZ_CHECK(run->result->out != NULL && run->result->err != NULL);
    text = husk_result_json(run->result);
    FUZZ_CHECK(text != NULL);
    /* Text may hold a NUL, and numbers are passed on as they were written. */
    json_t *json = json_loads(text, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
    FUZZ_CHECK(json != NULL);
    FUZZ_CHECK(json_is_string(json_object_get(json, "status")));
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct backend_ops ops = {.name = "fuzz"};
    static struct backend backend = {.ops = &ops};
    static struct engine engine = {.backend = &backend};
    static struct guest guest = {
        .engine = &engine,
        .usage = {.disk_free = UINT64_MAX, .inodes_free = UINT64_MAX}}; /* token: all zero */
    static const struct husk_spec spec = {
        .code = "", .outputs = outputs, .rich = true, .variables = variables};
    struct run run = {.spec = &spec, .guest = &guest, .limits = limits_default()};
    struct err e;

    FUZZ_CHECK(run_init(&run, &e) == 0);
    bool kept_rules = feed(&run, (const char *)data, size);
    enum run_verdict known = run.phase == RUN_DONE ? RUN_BY_CLAIM : RUN_BY_FACTS;
    check_taken(&run);
    check_told(&run, kept_rules ? known : RUN_BROKE_PROTOCOL);
    run_release(&run);
    return 0;
}
