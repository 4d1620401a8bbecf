/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of config_pack() and config_unpack(): settings as one process tells them to another. */
#include "config/config.h"

#include "base/buf.h"
#include "config_fixture.h"

TEST(what_is_packed_is_unpacked_as_it_was)
{
    AUTO_BUF struct buf text = BUF_INIT(65536);
    struct config c = {0};
    struct loaded l;
    struct err e;

    /* A value that a file could not hold: behind a space and a semicolon comes a comment there. */
    load(&l, "listen = none\nmemory = 100M\nse_cpu = 0.5\n", WORDS("HUSK_ALLOWED_HOSTS=a, b"),
         WORDS("--data", "/d ;x=y ", "--log-level", "error"));
    CHECK_STR(errors_of(&l), "");
    CHECK_INT(config_pack(&l.c, &text, &e), 0);
    CHECK_INT(config_unpack(text.data, text.len, &c, &e), 0);
    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        AUTO_BUF struct buf want = BUF_INIT(4096);
        AUTO_BUF struct buf got = BUF_INIT(4096);

        CHECK_INT(config_value_text(&l.c, key, &want, &e), 0);
        CHECK_INT(config_value_text(&c, key, &got, &e), 0);
        CASE("%s", config_rows[key].key);
        CHECK_STR(got.data, key == CONFIG_user ? "" : want.data);
    }
    config_release(&c);
    unload(&l);
}

TEST(unknown_packed_text_is_refused)
{
    static const struct {
        const char *text;
        size_t n;
        const char *want;
    } rows[] = {
        {"", 0, "the packed settings do not end with a NUL"},
        {"pids=1", 6, "the packed settings do not end with a NUL"},
        {"pids=1\0", 8, "the packed settings have an unknown key"},
        {"pids", 5, "the packed settings have an unknown key"},
        {"pidz=1", 7, "the packed settings have an unknown key"},
        {"data=/d\0listen=0.0.0.0:1", 25,
         "settings: --listen: listen: other machines can reach 0.0.0.0:1, and there is no "
         "authentication: listen on 127.0.0.1 behind a proxy that asks for a password, or give "
         "--insecure-listen to let in anyone who can reach the port\n"},
        {"data=/d\0pids=0", 15, "settings: --pids: '0' is out of range: expected 1 to 32768\n"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct config c = {0};
        struct err e;

        CASE("row %zu", i);
        CHECK_INT(config_unpack(rows[i].text, rows[i].n, &c, &e), -1);
        CHECK_STR(e.msg, rows[i].want);
        CHECK(c.data == NULL);
    }
}
