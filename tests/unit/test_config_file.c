/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of config/config_file.c: sections, everything that can be wrong in a file, and with a file.
 */
#include "config_fixture.h"

TEST(all_errors_of_a_file_are_found_with_their_lines)
{
    struct loaded l;

    load(&l,
         "listen = 1.2.3.4\n"
         "lisen = 1\n"
         "[pool]\n"
         "min = 4\n"
         "  max = 8\n" /* indented, yet a line of its own */
         "minn = 4\n"
         "listen = 3\n"
         "[pol]\n"
         "x = 1\n"
         "y = 2\n"
         "[session]\n"
         "lifetime = 5s\r\n"
         "timeout = 3\n"
         "session_timeout = 4\n"
         "garbage\n"
         "[x\n"
         "zzzzzzzzzzz = 1\n"
         "data = ./relative\n"
         "a\001b = 1\n"
         "[server]\n"
         "data = ./relative ; comment\n",
         NULL, WORDS("--cpu", "0"));
    CHECK_STR(errors_of(&l),
              "husk.conf:1: listen: '1.2.3.4' is not an address such as 127.0.0.1:8000 or "
              "[::1]:8000 (or none)\n"
              "husk.conf:2: there is no setting 'lisen'; did you mean 'listen'?\n"
              "husk.conf:6: there is no setting 'minn'; did you mean 'min'?\n"
              "husk.conf:7: listen belongs to [server], not to [pool]\n"
              "husk.conf:9: there is no section [pol]; did you mean [pool]?\n"
              "husk.conf:14: session_timeout is set twice; line 13 has the first\n"
              "husk.conf:15: expected 'key = value'\n"
              "husk.conf:16: expected ']' at the end of the section's name\n"
              "husk.conf:17: there is no setting 'zzzzzzzzzzz'\n"
              "husk.conf:18: data belongs to [server], not to [session]\n"
              "husk.conf:19: the line has a control character\n"
              "husk.conf:21: data: './relative' is not an absolute path such as /srv/husk\n"
              "--cpu: '0' is out of range: expected 0.01 to 1024\n");
    CHECK_INT(l.report.n_errors, 13);
    unload(&l);
}

TEST(sections_stand_for_prefixes)
{
    struct loaded l;

    load(&l,
         "\xEF\xBB\xBF# a mark of the encoding comes first\n"
         "[server]\nlisten: 127.0.0.1:9\n"
         "[pool]\nmin = 3\npool_max = 9\nsession_pool_max = 7\n"
         "[session]\nlifetime = 5m ; with the prefix it is session_lifetime\nmax_sessions = 3\n"
         "[http]\nidle_timeout = 6m\n"
         "[workspace_se]\ncpu = 0.5\nse_pool = 1\n"
         "[limits]\ncpu = 3",
         NULL, NULL);
    CHECK_STR(errors_of(&l), "");
    CHECK_STR(l.c.listen.items[0], "127.0.0.1:9");
    CHECK_INT(l.c.pool_min, 3);
    CHECK_INT(l.c.pool_max, 9);
    CHECK_INT(l.c.session_pool_max, 7);
    CHECK_INT(l.c.session_lifetime_ms, 300000);
    CHECK_INT(l.c.max_sessions, 3);
    CHECK_INT(l.c.idle_timeout_ms, 360000);
    CHECK_INT(l.c.se_cpu_milli, 500);
    CHECK_INT(l.c.se_pool, 1);
    CHECK_INT(l.c.cpu_milli, 3000);
    CHECK_INT(l.c.origin[CONFIG_cpu].line, 17);
    unload(&l);
}

TEST(long_lines_are_named_and_lists_can_be_spread)
{
    AUTO_BUF struct buf text = BUF_INIT(8192);
    struct loaded l;

    CHECK_INT(buf_add_str(&text, "allowed_hosts ="), 0);
    for (int i = 0; i < 64; i++) {
        CHECK_INT(buf_printf(&text, " host%02d.example", i), 0);
    }
    CHECK_INT(buf_add_str(&text, "\npids = 9\n"), 0);
    load(&l, text.data, NULL, NULL);
    CHECK_STR(errors_of(&l), "husk.conf:1: the line is too long; a list can be split into lines "
                             "that repeat its key\n");
    unload(&l);

    buf_consume(&text, text.len);
    for (int i = 0; i < 64; i++) {
        CHECK_INT(buf_printf(&text, "allowed_hosts = host%02d.example\n", i), 0);
    }
    load(&l, text.data, NULL, NULL);
    CHECK_STR(errors_of(&l), "");
    CHECK_INT(l.c.allowed_hosts.n, 64);
    unload(&l);
}

TEST(zero_bytes_in_a_file_hide_nothing)
{
    static const char text[] = "pids = 5\0 6\ncpu = 9999";
    struct config_input in = {.is_root = true, .file = CONF_NAME};
    struct loaded l = {0};
    char dir[32];

    enter_temporary_directory(dir);
    write_conf(text, sizeof(text) - 1);
    CHECK_INT(config_load(&in, &l.c, &l.report, &l.e), -1);
    CHECK_STR(errors_of(&l), "husk.conf:1: the line has a control character\n"
                             "husk.conf:2: cpu: '9999' is out of range: expected 0.01 to 1024\n");
    unload(&l);
    leave_temporary_directory(dir);
}

TEST(a_named_file_must_be_readable)
{
    struct config_input in = {.is_root = true, .file = "/nonexistent/husk.conf"};
    struct loaded l = {0};
    char dir[32];

    CHECK_INT(config_load(&in, &l.c, &l.report, &l.e), -1);
    check_has(errors_of(&l), "/nonexistent/husk.conf: cannot open it: No such file");
    unload(&l);

    in.file = NULL;
    in.env = WORDS("HUSK_CONFIG=/");
    CHECK_INT(config_load(&in, &l.c, &l.report, &l.e), -1);
    check_has(errors_of(&l), "/: cannot read it: Is a directory");
    unload(&l);

    in.env = WORDS("HUSK_CONFIG=");
    CHECK_INT(config_load(&in, &l.c, &l.report, &l.e), -1);
    CHECK_INT(l.report.n_errors, 1);
    unload(&l);

    in.env = NULL;
    in.system_file = "/nonexistent/husk.conf"; /* not named by the user */
    CHECK_INT(config_load(&in, &l.c, &l.report, &l.e), 0);
    CHECK(l.c.file == NULL);
    unload(&l);

    enter_temporary_directory(dir);
    write_conf("pids = 5\n", 9);
    in.system_file = CONF_NAME;
    CHECK_INT(config_load(&in, &l.c, &l.report, &l.e), 0);
    CHECK_INT(l.c.pids, 5);
    unload(&l);
    CHECK_INT(chmod(CONF_NAME, 0666), 0);
    CHECK_INT(config_load(&in, &l.c, &l.report, &l.e), -1);
    check_has(errors_of(&l), "everyone can write it: chmod o-w it");
    unload(&l);
    leave_temporary_directory(dir);
}
