/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tar streams: headers are written, and streams are read, byte by byte and without touching a file.
 *
 * Writes POSIX pax: plain ustar headers, with extended ones before them where a name, link or size
 * does not fit. Reads ustar, pax and GNU's long names. The reader is strict: it refuses what it
 * does not know, and no name that it passes on is absolute or contains "." or "..".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "wire/files_msg.h"

#define TAR_BLOCK 512
#define TAR_HEADER_MAX 16384   /* of one entry, extended header included */
#define TAR_EXTENDED_MAX 65536 /* bytes of an extended header that is read */

enum tar_kind { TAR_FILE = '0', TAR_HARD_LINK = '1', TAR_LINK = '2', TAR_DIRECTORY = '5' };

struct tar_entry {
    enum tar_kind kind;
    const char *name; /* no slash at its end */
    const char *link; /* of TAR_LINK and TAR_HARD_LINK: where to; else "" */
    uint32_t mode;    /* permission bits */
    uint64_t size;
    int64_t mtime; /* seconds since 1970 */
};

/* ---- writing ---- */

/*
 * Appends an entry's header. Its data follow, then zeros up to a multiple of TAR_BLOCK. 0 or
 * -errno.
 */
int tar_put_header(struct buf *b, const struct tar_entry *entry);
/* Appends what an archive ends with. */
int tar_put_end(struct buf *b);

/* ---- reading ---- */

/* Called for what the reader finds: each returns 0, or -errno, which ends the reading. */
struct tar_events {
    int (*entry)(void *user, const struct tar_entry *entry); /* borrowed for the call */
    int (*data)(void *user, const char *data, size_t n);     /* of the last TAR_FILE */
    int (*end)(void *user);                                  /* a TAR_FILE is complete */
};

struct tar_reader {
    const struct tar_events *events;
    void *user;
    bool any_link; /* symbolic links may name any place; set after tar_reader_init() */
    int state;     /* enum in tar_read.c */
    char block[TAR_BLOCK];
    size_t have;         /* bytes in block */
    uint64_t left;       /* bytes of the current entry's data */
    size_t padding;      /* bytes behind them */
    char type;           /* of an extended header that is being read, */
    struct buf extended; /* and its data */
    bool has_name;       /* an extended header gave these: */
    bool has_link;
    bool has_size;
    bool has_mtime;
    uint64_t size;
    int64_t mtime;
    char name[FILES_PATH_MAX + 2];
    char link[FILES_PATH_MAX + 2];
    const char *problem; /* after -EBADMSG: what was wrong, with the entry called name */
};

void tar_reader_init(struct tar_reader *r, const struct tar_events *events, void *user);
void tar_reader_release(struct tar_reader *r);

/* Any number of bytes. 0; -EBADMSG; what an event returned. Not to be called after a failure. */
int tar_reader_feed(struct tar_reader *r, const char *data, size_t n);
/* At the end of the stream: -EBADMSG if the archive is incomplete. */
int tar_reader_finish(struct tar_reader *r);
