/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of config/config.h: sources, precedence, where values come from, defaults, reload. */
#include "config/config.h"

#include <errno.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "config_fixture.h"
#include "husk/husk.h"

static void check_value(const struct config *c, enum config_key key, const char *want)
{
    AUTO_BUF struct buf text = BUF_INIT(4096);
    struct err e;

    CHECK_INT(config_value_text(c, key, &text, &e), 0);
    CHECK_STR(text.data, want);
}

static void check_origin(const struct config *c, enum config_key key, const char *want)
{
    char from[512];

    config_origin_text(c, key, from, sizeof(from));
    CHECK_STR(from, want);
}

/* ---- the table ---- */

TEST(names_follow_from_the_key)
{
    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        const struct config_row *row = &config_rows[key];
        char env[CONFIG_NAME_MAX];
        size_t n = strlen(row->key);

        CASE("%s", row->key);
        config_env_name(row, env);
        CHECK(str_starts(env, "HUSK_"));
        CHECK_INT(strlen(env), 5 + n);
        CHECK_INT(strlen(row->flag), n);
        for (size_t i = 0; i < n; i++) {
            CHECK_INT(row->flag[i], row->key[i] == '_' ? '-' : row->key[i]);
            CHECK_INT(env[5 + i], row->key[i] == '_' ? '_' : row->key[i] - 'a' + 'A');
        }
        CHECK(row->help[strlen(row->help) - 1] == '.');
        CHECK(row->seed_unit == 0 || row->seed != NULL);
        CHECK((row->type == CONFIG_TYPE_CHOICE) == (row->choices != NULL));
        for (enum config_key other = 0; other < key; other++) {
            CHECK(!str_eq(config_rows[other].key, row->key));
        }
    }
}

TEST(defaults_are_those_promised)
{
    struct loaded l;

    load(&l, NULL, NULL, NULL);
    CHECK_STR(errors_of(&l), "");
    CHECK_INT(l.result, 0);
    CHECK_INT(l.c.listen.n, 1);
    CHECK_STR(l.c.listen.items[0], "127.0.0.1:8000");
    CHECK_STR(l.c.socket, "/run/husk/husk.sock");
    CHECK_STR(l.c.data, "/var/lib/husk");
    CHECK_STR(l.c.user, "husk");
    CHECK_INT(l.c.socket_mode, 0660);
    CHECK_INT(l.c.min_isolation, HUSK_ISOLATION_FULL);
    CHECK_INT(l.c.log_level, LOG_INFO);
    CHECK_INT(l.c.log_format, CONFIG_LOG_TEXT);
    CHECK(l.c.docs && l.c.ast_policy);
    CHECK_STR(l.c.templates_preload.items[0], "python");
    /* The seed's own. */
    CHECK_INT(l.c.se_cpu_milli, 2000);
    CHECK_INT(l.c.se_memory_bytes, 131072 << 10);
    CHECK(l.c.se_network);
    CHECK_INT(l.c.se_timeout_ms, 300000);
    CHECK_INT(l.c.se_pool, 2);
    CHECK_INT(l.c.se_max_processes, 10);
    CHECK_INT(l.c.se_expiration_ms, 86400000);
    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        check_origin(&l.c, key, "default");
    }
    unload(&l);
}

TEST(who_needs_the_data_directory_only_gets_it_in_spite_of_mistakes)
{
    static const struct {
        char *file; /* NULL: it cannot be read */
        char *flag;
        const char *data; /* NULL: refused */
    } rows[] = {
        {"pids = many\nno_key = 1\n", NULL, "/var/lib/husk"},
        {"pids = many\ndata = /d\n", NULL, "/d"},
        {"listen = 0.0.0.0:1\ndata = /d\n", NULL, "/d"},
        {"data = relative\n", NULL, NULL},
        {"data = relative\n", "/flag", "/flag"},
        {"data = /d\n", "", NULL},
        {NULL, NULL, NULL},
        {NULL, "/flag", "/flag"},
    };
    char dir[32];

    enter_temporary_directory(dir);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct config_flag flag = {CONFIG_data, rows[i].flag};
        struct config_input in = {.is_root = true,
                                  .only_data = true,
                                  .file = rows[i].file != NULL ? CONF_NAME : "nowhere",
                                  .flags = &flag,
                                  .n_flags = rows[i].flag != NULL ? 1 : 0};
        struct loaded l = {0};

        CASE("row %zu", i);
        if (rows[i].file != NULL) {
            write_conf(rows[i].file, strlen(rows[i].file));
        }
        CHECK_INT(config_load(&in, &l.c, &l.report, &l.e), rows[i].data != NULL ? 0 : -1);
        if (rows[i].data != NULL) {
            CHECK_STR(l.c.data, rows[i].data);
        }
        unload(&l);
    }
    leave_temporary_directory(dir);
}

TEST(default_limits_are_those_of_boxes)
{
    const struct limits box = limits_default();
    struct loaded l;

    load(&l, NULL, NULL, NULL);
    CHECK_INT(l.c.memory_bytes, box.memory_bytes);
    CHECK_INT(l.c.cpu_milli, box.cpu_milli);
    CHECK_INT(l.c.disk_bytes, box.disk_bytes);
    CHECK_INT(l.c.pids, box.pids);
    CHECK_INT(l.c.execution_timeout_ms, box.timeout_ms);
    unload(&l);
}

TEST(whatever_is_allowed_as_a_limit_suits_a_box)
{
    static const enum config_key keys[] = {CONFIG_memory, CONFIG_cpu,
                                           CONFIG_pids,   CONFIG_se_memory,
                                           CONFIG_se_cpu, CONFIG_se_max_processes};

    for (size_t i = 0; i < 2 * ARRAY_LEN(keys); i++) {
        const struct config_row *row = &config_rows[keys[i / 2]];
        uint64_t v = i % 2 == 0 ? row->least : row->most;
        struct limits box = {0};
        struct err e = {0};

        CASE("%s", row->key);
        switch (row->type) {
        case CONFIG_TYPE_SIZE:
            box.memory_bytes = v;
            break;
        case CONFIG_TYPE_CPU:
            box.cpu_milli = (uint32_t)v;
            break;
        default:
            box.pids = (uint32_t)v;
        }
        limits_fill(&box);
        CHECK_INT(limits_check(&box, &e), 0);
    }
}

TEST(choices_are_those_of_other_headers)
{
    struct loaded l;

    load(&l, NULL, NULL, WORDS("--log-level", "error", "--min-isolation", "userns"));
    CHECK_INT(l.c.log_level, LOG_ERROR);
    CHECK_INT(l.c.min_isolation, HUSK_ISOLATION_USERNS);
    unload(&l);
    load(&l, NULL, NULL, WORDS("--log-level", "debug", "--log-format", "JSON"));
    CHECK_INT(l.c.log_level, LOG_DEBUG);
    CHECK_INT(l.c.log_format, CONFIG_LOG_JSON);
    unload(&l);
}

/* ---- precedence ---- */

TEST(a_stronger_source_wins)
{
    static const struct {
        const char *file;
        char *seed;
        char *env;
        char *flag;
        const char *value;
        const char *from;
    } rows[] = {
        {NULL, NULL, NULL, NULL, "128M", "default"},
        {NULL, "SANDBOX_MEMORY_LIMIT=65536", NULL, NULL, "64M", "SANDBOX_MEMORY_LIMIT"},
        {"se_memory = 65M", "SANDBOX_MEMORY_LIMIT=65536", NULL, NULL, "65M", CONF_NAME ":1"},
        {"se_memory = 65M", "SANDBOX_MEMORY_LIMIT=65536", "HUSK_SE_MEMORY=66M", NULL, "66M",
         "HUSK_SE_MEMORY"},
        {"se_memory = 65M", "SANDBOX_MEMORY_LIMIT=65536", "HUSK_SE_MEMORY=66M", "67M", "67M",
         "--se-memory"},
        {"se_memory = 65M", NULL, NULL, "67M", "67M", "--se-memory"},
        {NULL, "SANDBOX_MEMORY_LIMIT=65536", "HUSK_SE_MEMORY=66M", NULL, "66M", "HUSK_SE_MEMORY"},
        {"\n\n[workspace_se]\n# x\nmemory = 65M\n", NULL, NULL, NULL, "65M", CONF_NAME ":5"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *env[3] = {NULL};
        size_t n = 0;
        struct loaded l;

        CASE("row %zu", i);
        if (rows[i].seed != NULL) {
            env[n++] = rows[i].seed;
        }
        if (rows[i].env != NULL) {
            env[n++] = rows[i].env;
        }
        load(&l, rows[i].file, env,
             rows[i].flag != NULL ? WORDS("--se-memory", rows[i].flag) : NULL);
        CHECK_STR(errors_of(&l), "");
        check_value(&l.c, CONFIG_se_memory, rows[i].value);
        check_origin(&l.c, CONFIG_se_memory, rows[i].from);
        unload(&l);
    }
}

TEST(seed_variables_keep_their_units)
{
    struct loaded l;

    load(&l, NULL,
         WORDS("SANDBOX_CPU_QUOTA=1.5", "SANDBOX_MEMORY_LIMIT=262144", "SANDBOX_ALLOW_NETWORK=No",
               "SANDBOX_TIMEOUT_SECONDS=60", "SANDBOX_POOL_SIZE=5", "SANDBOX_MAX_USER_PROGRESS=20",
               "WORKSPACE_EXPIRATION_TIME=7200"),
         NULL);
    CHECK_STR(errors_of(&l), "");
    CHECK_INT(l.c.se_cpu_milli, 1500);
    CHECK_INT(l.c.se_memory_bytes, 256 << 20);
    CHECK(!l.c.se_network);
    CHECK_INT(l.c.se_timeout_ms, 60000);
    CHECK_INT(l.c.se_pool, 5);
    CHECK_INT(l.c.se_max_processes, 20);
    CHECK_INT(l.c.se_expiration_ms, 7200000);
    unload(&l);
}

TEST(a_stronger_list_replaces_and_one_source_collects)
{
    struct loaded l;

    load(&l, "listen = 127.0.0.1:1, [::1]:2\nlisten = 127.0.0.1:3\n", NULL, NULL);
    CHECK_STR(errors_of(&l), "");
    check_value(&l.c, CONFIG_listen, "127.0.0.1:1, [::1]:2, 127.0.0.1:3");
    CHECK(l.c.listen.items[3] == NULL);
    unload(&l);

    load(&l, "listen = 127.0.0.1:1\n", WORDS("HUSK_LISTEN=127.0.0.1:4 127.0.0.1:5"), NULL);
    check_value(&l.c, CONFIG_listen, "127.0.0.1:4, 127.0.0.1:5");
    unload(&l);

    load(&l, "listen = 127.0.0.1:1\n", WORDS("HUSK_LISTEN=127.0.0.1:4"),
         WORDS("--listen", "127.0.0.1:6", "--listen", "127.0.0.1:7"));
    check_value(&l.c, CONFIG_listen, "127.0.0.1:6, 127.0.0.1:7");
    check_origin(&l.c, CONFIG_listen, "--listen");
    unload(&l);

    load(&l, "listen = 127.0.0.1:1\n", NULL, WORDS("--listen", "none", "--templates-preload", ""));
    CHECK_STR(errors_of(&l), "");
    check_value(&l.c, CONFIG_listen, "none");
    CHECK_INT(l.c.listen.n, 0);
    CHECK_INT(l.c.templates_preload.n, 0);
    unload(&l);
}

TEST(the_last_flag_of_a_plain_setting_wins)
{
    struct loaded l;

    load(&l, NULL, NULL, WORDS("--pids", "5", "--pids", "6"));
    CHECK_INT(l.c.pids, 6);
    unload(&l);
}

/* ---- defaults that depend ---- */

TEST(places_depend_on_who_asks)
{
    static const struct {
        bool is_root;
        char *env[3];
        char *data;
        const char *want_data;
        const char *want_socket;
    } rows[] = {
        {true, {"HOME=/h", "XDG_RUNTIME_DIR=/r"}, NULL, "/var/lib/husk", "/run/husk/husk.sock"},
        {true, {NULL}, "/d", "/d", "/d/husk.sock"},
        {false,
         {"HOME=/h", "XDG_RUNTIME_DIR=/r"},
         NULL,
         "/h/.local/state/husk",
         "/r/husk/husk.sock"},
        {false, {"HOME=/h", "XDG_RUNTIME_DIR=/r"}, "/d", "/d", "/d/husk.sock"},
        {false, {"HOME=/h", "XDG_STATE_HOME=/s"}, NULL, "/s/husk", "/s/husk/husk.sock"},
        {false,
         {"HOME=/h", "XDG_STATE_HOME=s"},
         NULL,
         "/h/.local/state/husk",
         "/h/.local/state/husk/husk.sock"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct config_flag flag = {CONFIG_data, rows[i].data};
        struct config_input in = {
            .env = rows[i].env,
            .is_root = rows[i].is_root,
            .flags = &flag,
            .n_flags = rows[i].data != NULL,
        };
        struct loaded l = {0};

        CASE("row %zu", i);
        CHECK_INT(config_load(&in, &l.c, &l.report, &l.e), 0);
        CHECK_STR(l.c.data, rows[i].want_data);
        CHECK_STR(l.c.socket, rows[i].want_socket);
        CHECK_INT(l.c.user[0] != '\0', rows[i].is_root);
        unload(&l);
    }
}

TEST(nowhere_to_keep_data_is_an_error)
{
    struct config_input in = {.is_root = false};
    struct loaded l = {0};

    CHECK_INT(config_load(&in, &l.c, &l.report, &l.e), -1);
    check_has(errors_of(&l), "data: neither XDG_STATE_HOME nor HOME is set");
    CHECK_INT(l.report.n_errors, 1);
    unload(&l);
}

TEST(disk_shrinks_with_memory_unless_it_is_given)
{
    struct loaded l;

    load(&l, NULL, NULL, WORDS("--memory", "64M"));
    CHECK_STR(errors_of(&l), "");
    CHECK_INT(l.c.disk_bytes, 32 << 20);
    unload(&l);
    load(&l, NULL, WORDS("HUSK_DISK=60M"), WORDS("--memory", "64M"));
    CHECK_STR(errors_of(&l),
              "disk (60M, from HUSK_DISK) is kept in memory: at most three quarters of memory "
              "(64M, from --memory) are possible\n");
    unload(&l);
}

TEST(relative_paths_start_where_the_user_stands)
{
    struct loaded l;
    char dir[32];
    char want[64];

    enter_temporary_directory(dir);
    load(&l, NULL, WORDS("HUSK_SOCKET=./././s"), WORDS("--data", "a/b"));
    (void)snprintf(want, sizeof(want), "%s/a/b", dir);
    CHECK_STR(l.c.data, want);
    (void)snprintf(want, sizeof(want), "%s/s", dir);
    CHECK_STR(l.c.socket, want);
    unload(&l);
    load(&l, NULL, WORDS("HUSK_SOCKET=.//.///s"), WORDS("--data", ".//a/b//"));
    CHECK_STR(l.c.socket, want);
    (void)snprintf(want, sizeof(want), "%s/a/b", dir);
    CHECK_STR(l.c.data, want);
    unload(&l);
    leave_temporary_directory(dir);
}

/* ---- what settings demand of each other ---- */

TEST(a_minimum_above_its_maximum_is_named_with_both_places)
{
    struct loaded l;

    load(&l, "pool_max = 2", WORDS("HUSK_MAX_SESSION_TIMEOUT=2m"), WORDS("--pool-min", "3"));
    CHECK_INT(l.result, -1);
    CHECK_STR(errors_of(&l),
              "pool_min (3, from --pool-min) must not be more than pool_max (2, from husk.conf:1)\n"
              "session_timeout (5m, from default) must not be more than "
              "max_session_timeout (2m, from HUSK_MAX_SESSION_TIMEOUT)\n");
    CHECK_STR(l.e.msg, "2 things are wrong in the configuration");
    unload(&l);
}

/* ---- reload ---- */

TEST(reload_takes_what_may_change_and_names_the_rest)
{
    struct loaded live;
    struct loaded fresh;

    load(&live, NULL, NULL, WORDS("--pids", "5", "--data", "/d"));
    load(&fresh, "pids = 7\nallowed_hosts = a, b\n", NULL, WORDS("--data", "/e", "--pids", "8"));
    config_reload(&live.c, &fresh.c, &live.report);
    CHECK_INT(live.c.pids, 8);
    CHECK_INT(fresh.c.pids, 5);
    CHECK_INT(live.c.allowed_hosts.n, 2);
    CHECK_INT(fresh.c.allowed_hosts.n, 0);
    check_origin(&live.c, CONFIG_allowed_hosts, CONF_NAME ":2");
    CHECK_STR(live.c.data, "/d");
    CHECK_STR(warnings_of(&live), "socket has changed; the new value takes effect after a restart\n"
                                  "data has changed; the new value takes effect after a restart\n");
    unload(&live);
    unload(&fresh);
}
