/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of config/config.h: bounds of every row, every kind of wrong value, flag and variable. */
#include <netinet/in.h>

#include "base/str.h"
#include "config_fixture.h"

/* ---- bounds ---- */

/* The text of a number in the type's own unit. */
static void number_text(const struct config_row *row, uint64_t v, char *dst, size_t size)
{
    switch (row->type) {
    case CONFIG_TYPE_DURATION:
        (void)snprintf(dst, size, "%llums", (unsigned long long)v);
        return;
    case CONFIG_TYPE_CPU:
        (void)snprintf(dst, size, "%llu.%03llu", (unsigned long long)v / 1000,
                       (unsigned long long)v % 1000);
        return;
    case CONFIG_TYPE_MODE:
        (void)snprintf(dst, size, "%llo", (unsigned long long)v);
        return;
    default:
        (void)snprintf(dst, size, "%llu", (unsigned long long)v);
    }
}

static bool is_number(enum config_type type)
{
    return type == CONFIG_TYPE_MODE || type == CONFIG_TYPE_COUNT || type == CONFIG_TYPE_SIZE ||
           type == CONFIG_TYPE_DURATION || type == CONFIG_TYPE_CPU;
}

/* Alone, a value may contradict another setting; only complaints about its own range count. */
static bool is_refused(const struct config_row *row, uint64_t v)
{
    char number[32];
    char assignment[128];
    char env[CONFIG_NAME_MAX];
    struct loaded l;

    number_text(row, v, number, sizeof(number));
    config_env_name(row, env);
    (void)snprintf(assignment, sizeof(assignment), "%s=%s", env, number);
    load(&l, NULL, WORDS(assignment), NULL);
    bool refused = strstr(errors_of(&l), "is out of range: expected") != NULL;
    if (refused) {
        CHECK_INT(l.result, -1);
        CHECK(str_starts(errors_of(&l), env));
    }
    unload(&l);
    return refused;
}

TEST(every_row_holds_its_bounds)
{
    int n = 0;

    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        const struct config_row *row = &config_rows[key];

        if (!is_number(row->type)) {
            continue;
        }
        CASE("%s", row->key);
        n++;
        CHECK(row->least < row->most);
        CHECK(!is_refused(row, row->least));
        CHECK(!is_refused(row, row->most));
        CHECK(is_refused(row, row->most + 1));
        if (row->least > 0) {
            CHECK(is_refused(row, row->least - 1));
        }
    }
    CHECK(n > 30);
}

TEST(every_list_holds_its_length)
{
    static const struct {
        enum config_key key;
        const char *entry;
    } rows[] = {
        {CONFIG_listen, "127.0.0.1:1"},
        {CONFIG_allowed_hosts, "a.b"},
        {CONFIG_allowed_origins, "http://a"},
        {CONFIG_templates_preload, "python"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t more = 0; more < 2; more++) {
            AUTO_BUF struct buf text = BUF_INIT(4096);
            struct loaded l;
            char flag[64];

            CASE("%s with %zu too many", config_rows[rows[i].key].key, more);
            for (size_t k = 0; k < config_rows[rows[i].key].most + more; k++) {
                CHECK_INT(buf_printf(&text, "%s ", rows[i].entry), 0);
            }
            (void)snprintf(flag, sizeof(flag), "--%s", config_rows[rows[i].key].flag);
            load(&l, NULL, NULL, WORDS(flag, text.data));
            CHECK_INT(l.result, more == 0 ? 0 : -1);
            unload(&l);
        }
    }
}

/* What is shown can be written: it is read as the same value. */
TEST(shown_values_are_read_back)
{
    struct loaded l;

    load(&l, NULL, NULL,
         WORDS("--cpu", "0.25", "--memory", "1025K", "--head-timeout", "1500ms", "--disk", "524289",
               "--idle-timeout", "90m", "--drain-timeout", "0", "--body-min-rate", "0", "--docs",
               "OFF", "--allowed-hosts", "A.Example,b", "--socket-mode", "600"));
    CHECK_STR(errors_of(&l), "--memory: '1025K' is out of range: expected 16M to 1024G\n");
    unload(&l);

    load(&l, NULL, NULL,
         WORDS("--cpu", "0.25", "--memory", "17409K", "--head-timeout", "1500ms", "--disk",
               "524289", "--idle-timeout", "90m", "--drain-timeout", "0", "--body-min-rate", "0",
               "--docs", "OFF", "--allowed-hosts", "A.Example,b", "--socket-mode", "600"));
    CHECK_STR(errors_of(&l), "");
    static const struct {
        enum config_key key;
        const char *text;
    } rows[] = {
        {CONFIG_cpu, "0.25"},         {CONFIG_memory, "17409K"},
        {CONFIG_disk, "524289"},      {CONFIG_head_timeout, "1500ms"},
        {CONFIG_idle_timeout, "90m"}, {CONFIG_drain_timeout, "0"},
        {CONFIG_body_min_rate, "0"},  {CONFIG_docs, "false"},
        {CONFIG_socket_mode, "0600"}, {CONFIG_allowed_hosts, "a.example, b"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf text = BUF_INIT(4096);
        char flag[64];
        struct loaded again;

        CASE("%s", rows[i].text);
        CHECK_INT(config_value_text(&l.c, rows[i].key, &text, &l.e), 0);
        CHECK_STR(text.data, rows[i].text);
        (void)snprintf(flag, sizeof(flag), "--%s", config_rows[rows[i].key].flag);
        load(&again, NULL, NULL, WORDS(flag, text.data, "--memory", "17409K"));
        CHECK_STR(errors_of(&again), "");
        AUTO_BUF struct buf back = BUF_INIT(4096);
        CHECK_INT(config_value_text(&again.c, rows[i].key, &back, &l.e), 0);
        CHECK_STR(back.data, text.data);
        unload(&again);
    }
    unload(&l);
}

/* ---- wrong values ---- */

TEST(wrong_values_say_what_was_expected)
{
    static const struct {
        char *flag;
        char *value;
        const char *want;
    } rows[] = {
        {"--memory", "", "--memory: '' is not a size such as 64M or 1G\n"},
        {"--memory", "64X", "--memory: '64X' is not a size such as 64M or 1G\n"},
        {"--memory", "-1", "--memory: '-1' is not a size such as 64M or 1G\n"},
        {"--memory", "99999999999G",
         "--memory: '99999999999G' is out of range: expected 16M to 1024G\n"},
        {"--head-timeout", "5 s", "--head-timeout: '5 s' is not a time such as 5, 500ms or 2m\n"},
        {"--head-timeout", "99ms",
         "--head-timeout: '99ms' is out of range: expected 100ms to 1h\n"},
        {"--cpu", "two", "--cpu: 'two' is not a number of cores such as 2 or 0.5\n"},
        {"--cpu", "1.2345", "--cpu: '1.2345' is not a number of cores such as 2 or 0.5\n"},
        {"--pids", "1.5", "--pids: '1.5' is not a whole number\n"},
        {"--pids", "99999999999999999999",
         "--pids: '99999999999999999999' is out of range: expected 1 to 32768\n"},
        {"--socket-mode", "0668", "--socket-mode: '0668' is not an octal mode such as 0660\n"},
        {"--socket-mode", "0400", "--socket-mode: '0400' is out of range: expected 0600 to 0777\n"},
        {"--docs", "maybe", "--docs: 'maybe' is neither true, 1, yes, on nor false, 0, no, off\n"},
        {"--log-level", "loud", "--log-level: 'loud' is not one of: debug info warn error\n"},
        {"--log-level", "", "--log-level: '' is not one of: debug info warn error\n"},
        {"--min-isolation", "none", "--min-isolation: 'none' is not one of: full userns\n"},
        {"--user", "root", "--user: 'root' is root: expected an account without privileges\n"},
        {"--user", "no such", "--user: there is no account 'no such': expected an existing one\n"},
        {"--data", "", "--data: '' is not an absolute path such as /srv/husk\n"},
        {"--data", "/a\nb",
         "--data: '/a b' is not plain text: expected UTF-8 without invisible characters\n"},
        {"--data", "/\xff",
         "--data: '/\\xff' is not plain text: expected UTF-8 without invisible characters\n"},
        {"--templates-preload", "python ../x",
         "--templates-preload: '../x' is not a name: lower-case letters, digits, . _ -\n"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct loaded l;

        CASE("%s %s", rows[i].flag, rows[i].value);
        load(&l, NULL, NULL, WORDS(rows[i].flag, rows[i].value));
        CHECK_STR(errors_of(&l), rows[i].want);
        CHECK_INT(l.result, -1);
        CHECK(l.c.data == NULL); /* nothing to go on with */
        unload(&l);
    }
}

TEST(wrong_list_entries_are_refused)
{
    static const struct {
        char *flag;
        char *values[16];
    } rows[] = {
        {"--listen",
         {"", "8000", ":8000", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
          "example.org:80", "256.1.1.1:1", "::1:8000", "[::1]", "[::1:80", "[]:80", "*:80",
          "none, 127.0.0.1:1"}},
        {"--allowed-hosts",
         {"a:80", "http://a", "a..b", ".a", "a.", "a/b", "*", "a@b", "[::1", "[zz]",
          "\xc3\xa4.org"}},
        {"--allowed-origins",
         {"a", "ftp://a", "http://", "http://a/", "http://a:0", "http://a:65536", "http://a:b",
          "https://a b", "null", "*", "http://[::1", "http://u@h"}},
        {"--templates-preload", {"A", "../python", ".hidden", "a/b", "\xc3\xa4"}},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t k = 0; rows[i].values[k] != NULL; k++) {
            struct loaded l;

            CASE("%s %s", rows[i].flag, rows[i].values[k]);
            load(&l, NULL, NULL, WORDS(rows[i].flag, rows[i].values[k]));
            CHECK_INT(l.report.n_errors, 1);
            CHECK(str_starts(errors_of(&l), rows[i].flag));
            unload(&l);
        }
    }
}

TEST(right_list_entries_are_taken)
{
    struct loaded l;

    load(&l, NULL, NULL,
         WORDS("--allowed-hosts", "a, B.c-d_e.org 10.0.0.1\t[::1],", "--allowed-origins",
               "http://a https://B.org:8443 http://[::1]:80 http://[::1]"));
    CHECK_STR(errors_of(&l), "");
    CHECK_INT(l.c.allowed_hosts.n, 4);
    CHECK_STR(l.c.allowed_hosts.items[1], "b.c-d_e.org");
    CHECK_INT(l.c.allowed_origins.n, 4);
    CHECK_STR(l.c.allowed_origins.items[1], "https://b.org:8443");
    unload(&l);
}

TEST(seed_variables_are_checked_in_their_own_unit)
{
    struct loaded l;

    load(&l, NULL,
         WORDS("SANDBOX_MEMORY_LIMIT=128M", "SANDBOX_TIMEOUT_SECONDS=5m", "SANDBOX_POOL_SIZE=x",
               "SANDBOX_ALLOW_NETWORK=", "WORKSPACE_EXPIRATION_TIME=99999999999999999999"),
         NULL);
    CHECK_STR(errors_of(&l),
              "SANDBOX_MEMORY_LIMIT: '128M' is not a whole number of KB such as 131072\n"
              "SANDBOX_ALLOW_NETWORK: '' is neither true, 1, yes, on nor false, 0, no, off\n"
              "SANDBOX_TIMEOUT_SECONDS: '5m' is not a whole number of seconds such as 300\n"
              "SANDBOX_POOL_SIZE: 'x' is not a whole number\n"
              "WORKSPACE_EXPIRATION_TIME: '99999999999999999999' is out of range: expected 1s to "
              "8760h\n");
    unload(&l);
}

TEST(a_socket_path_that_no_address_holds_is_refused)
{
    char path[109] = "/";
    struct loaded l;

    memset(path + 1, 'x', 107);
    load(&l, NULL, NULL, WORDS("--socket", path));
    CHECK_INT(l.result, -1);
    check_has(errors_of(&l), "is too long: expected at most 107 characters in all");
    unload(&l);
    path[107] = '\0';
    load(&l, NULL, NULL, WORDS("--socket", path));
    CHECK_INT(l.result, 0);
    unload(&l);

    /* The default that follows from a long data directory. */
    load(&l, NULL, NULL, WORDS("--data", path));
    check_has(errors_of(&l), "default: socket: '/xxx");
    unload(&l);
}

/* ---- addresses ---- */

TEST(addresses_become_socket_addresses)
{
    static const struct {
        const char *text;
        int family;
        int port;
    } rows[] = {
        {"127.0.0.1:8000", AF_INET, 8000}, {"localhost:0", AF_INET, 0},
        {"0.0.0.0:65535", AF_INET, 65535}, {"[::1]:80", AF_INET6, 80},
        {"[::]:1", AF_INET6, 1},           {"[fe80::1:2]:9", AF_INET6, 9},
    };
    struct sockaddr_storage sa;
    socklen_t len = 0;
    struct err e;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].text);
        CHECK_INT(config_address(rows[i].text, &sa, &len, &e), 0);
        CHECK_INT(sa.ss_family, rows[i].family);
        const struct sockaddr_in *in4 = (const struct sockaddr_in *)&sa; /* ports lie alike */
        CHECK_INT(ntohs(in4->sin_port), rows[i].port);
        CHECK_INT(len, rows[i].family == AF_INET ? sizeof(struct sockaddr_in)
                                                 : sizeof(struct sockaddr_in6));
    }
    len = 77;
    CHECK_INT(config_address("127.0.0.1", &sa, &len, &e), -1);
    CHECK_INT(config_address("[::1:8000", &sa, &len, &e), -1);
    CHECK_INT(len, 77);
}

TEST(addresses_of_other_machines_need_a_word)
{
    static const struct {
        char *address;
        bool is_loopback;
    } rows[] = {
        {"127.0.0.1:1", true},
        {"127.1.2.3:1", true},
        {"localhost:1", true},
        {"[::1]:1", true},
        {"[::ffff:127.0.0.1]:1", true},
        {"0.0.0.0:1", false},
        {"[::]:1", false},
        {"10.0.0.1:1", false},
        {"128.0.0.1:1", false},
        {"126.0.0.1:1", false},
        {"[::2]:1", false},
        {"[::ffff:10.0.0.1]:1", false},
        {"[fe80::1]:1", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct loaded l;

        CASE("%s", rows[i].address);
        load(&l, NULL, NULL, WORDS("--listen", "127.0.0.1:2", "--listen", rows[i].address));
        CHECK_INT(l.report.n_errors, rows[i].is_loopback ? 0 : 1);
        if (!rows[i].is_loopback) {
            CHECK(str_starts(errors_of(&l), "--listen: listen: other machines can reach "));
            check_has(errors_of(&l), rows[i].address);
            check_has(errors_of(&l), "--insecure-listen");
        }
        unload(&l);
        load(&l, "insecure_listen = yes\n", NULL, WORDS("--listen", rows[i].address));
        CHECK_STR(errors_of(&l), "");
        unload(&l);
    }
}

/* ---- unknown variables and arguments ---- */

TEST(unknown_variables_are_only_named)
{
    struct loaded l;

    load(&l, NULL,
         WORDS("HUSK_LISTN=1", "HUSK_ZZZZZZZZZZZZ=1", "HUSK_LAUNCHER=/x", "HUSK_LIB_DIR=/x",
               "HUSK_TEMPLATE_DIR=/x", "HUSK_URL=x", "HUSK_TEST_MARK=1", "HUSKY=1", "OTHER=1",
               "HUSK_PIDS=9", "HUSK_X"),
         NULL);
    CHECK_INT(l.result, 0);
    CHECK_INT(l.c.pids, 9);
    CHECK_STR(warnings_of(&l),
              "HUSK_LISTN: no setting has this variable (did you mean HUSK_LISTEN?), ignoring\n"
              "HUSK_ZZZZZZZZZZZZ: no setting has this variable, ignoring\n"
              "HUSK_X: no setting has this variable, ignoring\n");
    CHECK_INT(l.report.n_warnings, 3);
    unload(&l);
}
