/* SPDX-License-Identifier: Apache-2.0 */
/* Tar headers; see tar.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "wire/tar.h"

#define OCTAL_SIZE_MAX 077777777777 /* what eleven octal digits hold */
#define OWNER_ID 1000               /* of the box's user; programs that unpack may ignore it */

/* A header block; all of it text. */
struct header {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char sum[8];
    char type;
    char link[100];
    char magic[6];
    char version[2];
    char uname[32];
    char gname[32];
    char device_major[8];
    char device_minor[8];
    char prefix[155];
    char rest[12];
};
_Static_assert(sizeof(struct header) == TAR_BLOCK, "a header is one block");

/* Digits up to the field's last byte, which stays NUL. */
static void put_octal(char *field, size_t size, uint64_t value)
{
    for (size_t i = size - 1; i-- > 0; value >>= 3) {
        field[i] = (char)('0' + (value & 7));
    }
    field[size - 1] = '\0';
}

static int put_block(struct buf *b, struct header *h)
{
    unsigned sum = 0;

    memcpy(h->magic, "ustar", sizeof(h->magic));
    memcpy(h->version, "00", sizeof(h->version));
    put_octal(h->uid, sizeof(h->uid), OWNER_ID);
    put_octal(h->gid, sizeof(h->gid), OWNER_ID);
    memset(h->sum, ' ', sizeof(h->sum)); /* counts as spaces in itself */
    for (size_t i = 0; i < sizeof(*h); i++) {
        sum += ((const unsigned char *)h)[i];
    }
    put_octal(h->sum, sizeof(h->sum) - 1, sum);
    return buf_add(b, h, sizeof(*h));
}

static int put_zeros(struct buf *b, size_t n)
{
    static const char zeros[TAR_BLOCK];

    return buf_add(b, zeros, n);
}

/* "LENGTH key=value\n", where LENGTH counts itself. */
static int put_record(struct buf *records, const char *key, const char *value)
{
    size_t rest = strlen(key) + strlen(value) + 3; /* space, '=', newline */
    size_t len;

    for (size_t digits = 1;; digits++) {
        len = rest + digits;
        if ((size_t)snprintf(NULL, 0, "%zu", len) == digits) {
            break;
        }
    }
    return buf_printf(records, "%zu %s=%s\n", len, key, value);
}

/* What does not fit into the header that follows. */
static int collect_records(struct buf *records, const struct tar_entry *entry, size_t name_len)
{
    const struct header *h = NULL;
    bool name = name_len > sizeof(h->name);
    bool link = strlen(entry->link) > sizeof(h->link);
    char number[32];
    int r = 0;

    if ((name && !str_is_utf8(entry->name, strlen(entry->name))) ||
        (link && !str_is_utf8(entry->link, strlen(entry->link)))) {
        r = put_record(records, "hdrcharset", "BINARY");
    }
    if (r == 0 && name) {
        r = put_record(records, "path", entry->name);
    }
    if (r == 0 && link) {
        r = put_record(records, "linkpath", entry->link);
    }
    if (r == 0 && entry->size > OCTAL_SIZE_MAX) {
        (void)str_format(number, sizeof(number), "%" PRIu64, entry->size);
        r = put_record(records, "size", number);
    }
    if (r == 0 && (entry->mtime < 0 || entry->mtime > OCTAL_SIZE_MAX)) {
        (void)str_format(number, sizeof(number), "%" PRId64, entry->mtime);
        r = put_record(records, "mtime", number);
    }
    return r;
}

static int put_extended(struct buf *b, const struct buf *records)
{
    struct header h = {.name = "pax", .type = 'x'};
    size_t rest = records->len % TAR_BLOCK;

    put_octal(h.mode, sizeof(h.mode), 0644);
    put_octal(h.size, sizeof(h.size), records->len);
    put_octal(h.mtime, sizeof(h.mtime), 0);
    int r = put_block(b, &h);
    if (r == 0) {
        r = buf_add(b, records->data, records->len);
    }
    return r < 0 ? r : put_zeros(b, rest > 0 ? TAR_BLOCK - rest : 0);
}

int tar_put_header(struct buf *b, const struct tar_entry *entry)
{
    AUTO_BUF struct buf records = BUF_INIT(TAR_HEADER_MAX);
    struct header h = {.type = (char)entry->kind};
    bool folder = entry->kind == TAR_DIRECTORY;
    size_t name = strlen(entry->name);

    int r = collect_records(&records, entry, name + (folder ? 1 : 0));
    if (r == 0 && records.len > 0) {
        r = put_extended(b, &records);
    }
    if (r < 0) {
        return r;
    }
    /* Full fields have no NUL; what did not fit is cut here and whole in the extended header. */
    memcpy(h.name, entry->name, MIN(name, sizeof(h.name)));
    if (folder && name < sizeof(h.name)) {
        h.name[name] = '/'; /* for readers that only look at this */
    }
    memcpy(h.link, entry->link, MIN(strlen(entry->link), sizeof(h.link)));
    put_octal(h.mode, sizeof(h.mode), entry->mode & 0777);
    put_octal(h.size, sizeof(h.size), entry->size > OCTAL_SIZE_MAX ? 0 : entry->size);
    bool has_time = entry->mtime >= 0 && entry->mtime <= OCTAL_SIZE_MAX;
    put_octal(h.mtime, sizeof(h.mtime), has_time ? (uint64_t)entry->mtime : 0);
    return put_block(b, &h);
}

int tar_put_end(struct buf *b)
{
    int r = put_zeros(b, TAR_BLOCK);

    return r < 0 ? r : put_zeros(b, TAR_BLOCK);
}
