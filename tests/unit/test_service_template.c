/* SPDX-License-Identifier: Apache-2.0 */
/* The template file that a client's definition becomes (service/template_text.c). */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "service/service_impl.h"
#include "tap.h"

/* The file's text, or NULL and *e. Owned by the caller. */
static char *write_text(const struct template_def *base, const char *definition, struct err *e)
{
    struct buf b = BUF_INIT(65000);
    json_t *d = json_loads(definition, 0, NULL);

    CHECK(d != NULL);
    int r = template_write(base, d, &b, e);
    json_decref(d);
    if (r < 0) {
        buf_release(&b);
        return NULL;
    }
    return b.data;
}

static struct template_def *base_new(const char *name, const char *base, const char *preload)
{
    struct template_def *def = calloc(1, sizeof(*def));

    CHECK(def != NULL);
    CHECK_INT(str_copy(def->info.name, sizeof(def->info.name), name), 0);
    CHECK_INT(str_copy(def->base, sizeof(def->base), base), 0);
    CHECK_INT(str_copy(def->info.preload, sizeof(def->info.preload), preload), 0);
    return def;
}

TEST(a_definition_becomes_one_line_per_setting)
{
    AUTO_FREE struct template_def *base = base_new("python", "", "json");
    struct err e = {0};

    AUTO_FREE char *text = write_text(
        base,
        "{\"description\": \"mine\", \"preload\": [\"csv\", \"re\"], \"default_env_vars\": "
        "{\"A\": \"1\"}, \"default_memory_mb\": 100, \"default_disk_mb\": 500, "
        "\"default_cpu_cores\": 0.5}",
        &e);
    CHECK_STR(text, "about = mine\nbase = python\npreload = csv re\nenv = A=1\nmemory = 100M\n"
                    "disk = 75M\ncpus = 0.500\n");
}

TEST(a_base_that_a_client_made_hands_on_its_own_base_and_modules)
{
    AUTO_FREE struct template_def *base = base_new("theirs", "python", "json");
    struct err e = {0};

    AUTO_FREE char *text = write_text(base, "{\"preload\": [\"csv\"]}", &e);
    CHECK_STR(text, "base = python\npreload = json csv\n");
}

TEST(a_value_that_could_begin_another_line_is_refused)
{
    static const char *const bad[] = {
        "{\"description\": \"a\\nroot = /etc\"}",
        "{\"default_env_vars\": {\"A\": \"1\\nwarm = x\"}}",
        "{\"preload\": [\"csv\\nenv = A=1\"]}",
        "{\"description\": \"a\\u0007\"}",
    };
    AUTO_FREE struct template_def *base = base_new("python", "", "");

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = {0};
        CASE("%s", bad[i]);
        AUTO_FREE char *text = write_text(base, bad[i], &e);
        CHECK(text == NULL);
        CHECK_INT(e.code, ERR_INVALID);
    }
}
