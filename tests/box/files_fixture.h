/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of core/box_files.h share: a connection to a session's files, and short ways to use
 * it.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"
#include "core/box_files_impl.h"
#include "core/husk_impl.h"
#include "engine_fixture.h"
#include "tap.h"

#define AUTO_FILES AUTO(fixture_files_close)
void fixture_files_close(struct box_files **f);
struct box_files *fixture_files(struct husk_session *s);

/* A request that must succeed. Needs a struct err e in scope. */
#define CHECK_DONE(call)                                                                           \
    do {                                                                                           \
        if ((call) != 0) {                                                                         \
            tap_fail(__FILE__, __LINE__, "%s: %s", #call, e.msg);                                  \
        }                                                                                          \
    } while (0)

/* A request that must fail in a certain way, and say so. */
#define CHECK_FAILS(f, call, want)                                                                 \
    do {                                                                                           \
        CHECK_INT((call), -1);                                                                     \
        CHECK_STR(files_msg_status_name(box_files_status(f)), (want));                             \
        CHECK(e.msg[0] != '\0');                                                                   \
    } while (0)

/* Sinks and sources in memory. */
#define FIXTURE_CONTENT_MAX ((size_t)64 << 20)
struct box_files_sink fixture_into(struct buf *b);

struct fixture_bytes {
    const char *data;
    size_t left;
    size_t portion; /* bytes at a time; 0: as many as fit */
};
struct box_files_source fixture_from(struct fixture_bytes *bytes);

/* Whole files and archives; -1 with *e. */
int fixture_write(struct box_files *f, const char *path, const char *text, struct err *e);
int fixture_read(struct box_files *f, const char *path, bool follow, struct buf *ret,
                 struct err *e);
int fixture_unpack(struct box_files *f, const char *path, const struct buf *archive, struct err *e);

/* A listing as sorted lines "kind mode size name". NULL: it failed. */
int fixture_list(struct box_files *f, const char *path, bool recursive, struct buf *ret,
                 struct err *e);

/* For a struct box_files_list whose user is a size_t: how many there are. */
int fixture_count_entry(void *user, const struct files_entry *entry, const char *name,
                        const char *target);
