/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libhusk in one page: one contained run, then a session whose variables live on.
 *
 *     cc hello.c $(pkg-config --cflags --libs husk) -o hello
 *     export HUSK_LAUNCHER=$(pkg-config --variable=launcher husk)
 *     export HUSK_LIB_DIR=$(pkg-config --variable=filesdir husk)
 *     ./hello
 *
 * A program in the same bin/ as husk-launcher needs neither variable. Full isolation needs root;
 * this example takes what the host offers.
 */
#include <stdio.h>
#include <string.h>

#include <husk/husk.h>

static int fail(const char *what, const struct husk_error *e)
{
    fprintf(stderr, "%s: %s: %s\n", what, e->type, e->message);
    return 1;
}

static int run_once(struct husk_engine *engine)
{
    static const char code[] = "print('hello from a box')";
    struct husk_spec spec = {.kind = HUSK_SCRIPT, .code = code, .code_len = strlen(code)};
    struct husk_result *result = NULL;
    struct husk_error e;

    if (husk_run(engine, &spec, &result, &e) < 0) {
        return fail("husk_run", &e);
    }
    printf("%s: %s", husk_status_name(result->status), result->out);
    husk_result_free(result);
    return 0;
}

static int run_session(struct husk_engine *engine)
{
    static const char *const cells[] = {"x = 6", "x * 7"};
    struct husk_session *session = NULL;
    struct husk_error e;

    if (husk_session_open(engine, &(struct husk_spec){.template_name = "python"}, &session, &e) <
        0) {
        return fail("husk_session_open", &e);
    }
    for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
        struct husk_spec spec = {.kind = HUSK_CELL, .code = cells[i], .code_len = strlen(cells[i])};
        struct husk_result *result = NULL;
        if (husk_session_run(session, 0, &spec, &result, &e) < 0) {
            husk_session_close(session);
            return fail("husk_session_run", &e);
        }
        if (result->value != NULL) {
            printf("%s = %s\n", cells[i], result->value);
        }
        husk_result_free(result);
    }
    husk_session_close(session);
    return 0;
}

int main(void)
{
    struct husk_options options = {.min_isolation = HUSK_ISOLATION_USERNS};
    struct husk_engine *engine = NULL;
    struct husk_error e;

    if (husk_open(&options, &engine, &e) < 0) {
        return fail("husk_open", &e);
    }
    int code = run_once(engine);
    if (code == 0) {
        code = run_session(engine);
    }
    husk_close(engine);
    return code;
}
