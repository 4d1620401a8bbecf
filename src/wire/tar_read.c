/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strict reader of tar streams; see tar.h. Reads hostile bytes; does nothing but parse.
 *
 * The stream is a row of blocks. A header block says how many bytes of data follow; those of an
 * extended header are collected and change how the next header is understood.
 */
#include <errno.h>
#include <string.h>

#include "wire/tar_impl.h"

enum { HEADER, DATA, EXTENDED, PADDING, OVER };

struct field {
    size_t at;
    size_t size;
};
static const struct field f_name = {0, 100};
static const struct field f_mode = {100, 8};
static const struct field f_size = {124, 12};
static const struct field f_mtime = {136, 12};
static const struct field f_sum = {148, 8};
static const struct field f_link = {157, 100};
static const struct field f_prefix = {345, 155};
#define TYPE_AT 156
#define MAGIC_AT 257

void tar_reader_init(struct tar_reader *r, const struct tar_events *events, void *user)
{
    memset(r, 0, sizeof(*r));
    r->events = events;
    r->user = user;
    r->extended = BUF_INIT(TAR_EXTENDED_MAX);
}

void tar_reader_release(struct tar_reader *r)
{
    buf_release(&r->extended);
}

/* Octal text, or with its highest bit set a binary number of at most 63 bits. */
static int get_number(const struct tar_reader *r, struct field f, uint64_t *ret)
{
    const unsigned char *p = (const unsigned char *)r->block + f.at;
    uint64_t value = 0;
    size_t i = 0;

    if ((p[0] & 0x80) != 0) {
        value = p[0] & 0x7f;
        for (i = 1; i < f.size; i++) {
            if (value > (uint64_t)INT64_MAX >> 8) {
                return -EBADMSG;
            }
            value = value << 8 | p[i];
        }
        *ret = value;
        return 0;
    }
    while (i < f.size && p[i] == ' ') {
        i++;
    }
    for (; i < f.size && p[i] >= '0' && p[i] <= '7'; i++) {
        value = value << 3 | (unsigned)(p[i] - '0'); /* twelve digits at most: fits */
    }
    if (i < f.size && p[i] != ' ' && p[i] != '\0') {
        return -EBADMSG;
    }
    *ret = value;
    return 0;
}

static bool sum_is_right(const struct tar_reader *r)
{
    uint64_t want;
    uint64_t sum = 0;

    for (size_t i = 0; i < TAR_BLOCK; i++) {
        bool in_field = i >= f_sum.at && i < f_sum.at + f_sum.size;
        sum += in_field ? ' ' : (unsigned char)r->block[i];
    }
    return get_number(r, f_sum, &want) == 0 && sum == want;
}

static bool is_zero(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] != '\0') {
            return false;
        }
    }
    return true;
}

static void append_field(const struct tar_reader *r, struct field f, char *dst)
{
    const char *text = r->block + f.at;
    size_t len = strlen(dst);
    size_t n = strnlen(text, f.size);

    memcpy(dst + len, text, n); /* all fields together are far below FILES_PATH_MAX */
    dst[len + n] = '\0';
}

/* Takes the plain names of a header, unless an extended one gave longer ones. */
static void take_names(struct tar_reader *r, bool posix)
{
    if (!r->has_name) {
        r->name[0] = '\0';
        if (posix && r->block[f_prefix.at] != '\0') {
            append_field(r, f_prefix, r->name);
            size_t n = strlen(r->name);
            r->name[n] = '/';
            r->name[n + 1] = '\0';
        }
        append_field(r, f_name, r->name);
    }
    if (!r->has_link) {
        r->link[0] = '\0';
        append_field(r, f_link, r->link);
    }
}

/* Makes "./a/" into "a": what every tar program writes. "" stands for the top itself. */
static bool clean_name(char *name, bool *had_slash)
{
    size_t skip = 0;
    size_t len = strlen(name);

    *had_slash = len > 1 && name[len - 1] == '/';
    if (*had_slash) {
        name[--len] = '\0';
    }
    while (name[skip] == '.' && (name[skip + 1] == '/' || name[skip + 1] == '\0')) {
        skip += name[skip + 1] == '/' ? 2 : 1;
    }
    memmove(name, name + skip, len - skip + 1);
    return files_msg_path_ok(name, len - skip, skip > 0);
}

/* False for a link that leads above the top of what is unpacked, going by its text. */
static bool link_stays(const char *name, const char *link)
{
    size_t depth = 0;

    if (link[0] == '\0' || link[0] == '/') {
        return false;
    }
    for (const char *p = strchr(name, '/'); p != NULL; p = strchr(p + 1, '/')) {
        depth++;
    }
    for (const char *p = link; *p != '\0';) {
        size_t n = strcspn(p, "/");
        if (n == 2 && memcmp(p, "..", 2) == 0) {
            if (depth == 0) {
                return false;
            }
            depth--;
        } else if (n > 0 && !(n == 1 && p[0] == '.')) {
            depth++;
        }
        p += n + (p[n] == '/' ? 1 : 0);
    }
    return true;
}

/* Passes the entry on after checking all its names. */
static int emit(struct tar_reader *r, char type, uint32_t mode)
{
    struct tar_entry entry = {.kind = type == '\0' ? TAR_FILE : (enum tar_kind)type,
                              .name = r->name,
                              .link = "",
                              .mode = mode & 0777,
                              .size = r->size,
                              .mtime = r->mtime};
    bool folder = entry.kind == TAR_DIRECTORY;
    bool slash;

    if (!clean_name(r->name, &slash) || (slash && !folder)) {
        return tar_refuse(r, "its name is absolute, has \"..\" or is too long");
    }
    if (r->name[0] == '\0' && !folder) {
        return tar_refuse(r, "it has no name");
    }
    if (entry.kind != TAR_FILE && entry.size != 0) {
        return tar_refuse(r, "only files have data");
    }
    if (entry.kind == TAR_LINK || entry.kind == TAR_HARD_LINK) {
        entry.link = r->link;
    }
    if (entry.kind == TAR_LINK && !r->any_link && !link_stays(r->name, r->link)) {
        return tar_refuse(r, "a link that leads out");
    }
    if (entry.kind == TAR_HARD_LINK &&
        (!clean_name(r->link, &slash) || slash || r->link[0] == '\0')) {
        return tar_refuse(r, "a hard link to something outside");
    }
    int e = r->events->entry(r->user, &entry);
    if (e == 0 && entry.kind == TAR_FILE && entry.size == 0) {
        e = r->events->end(r->user);
    }
    return e;
}

static void forget_extended(struct tar_reader *r)
{
    r->has_name = r->has_link = r->has_size = r->has_mtime = false;
}

static void expect_data(struct tar_reader *r, int state, uint64_t size)
{
    r->left = size;
    r->padding = (size_t)(-size % TAR_BLOCK);
    r->state = size > 0 ? state : HEADER;
}

static bool is_one_of(char type, const char *types)
{
    return type != '\0' && strchr(types, type) != NULL;
}

static int take_header(struct tar_reader *r)
{
    uint64_t mode;
    uint64_t mtime;
    uint64_t size;

    if (is_zero(r->block, TAR_BLOCK)) {
        r->state = OVER;
        return 0;
    }
    bool posix = memcmp(r->block + MAGIC_AT, "ustar\0", 6) == 0;
    char type = r->block[TYPE_AT];
    if ((!posix && memcmp(r->block + MAGIC_AT, "ustar ", 6) != 0) || !sum_is_right(r)) {
        return tar_refuse(r, "not a tar archive, or a damaged one");
    }
    if (get_number(r, f_size, &size) < 0 || get_number(r, f_mode, &mode) < 0) {
        return tar_refuse(r, "a number in its header is malformed");
    }
    if (is_one_of(type, "xgLK")) {
        if (size == 0 || size > TAR_EXTENDED_MAX) {
            return tar_refuse(r, "an extended header of unusable size");
        }
        r->type = type;
        r->extended.len = 0;
        expect_data(r, EXTENDED, size);
        return 0;
    }
    take_names(r, posix);
    if (type != '\0' && !is_one_of(type, "0125")) {
        return tar_refuse(r, "neither file, directory nor link");
    }
    r->size = r->has_size ? r->size : size;
    if (!r->has_mtime) {
        r->mtime = get_number(r, f_mtime, &mtime) < 0 ? 0 : (int64_t)mtime;
    }
    int e = emit(r, type, (uint32_t)mode);
    if (e == 0) {
        forget_extended(r);
        expect_data(r, DATA, r->size);
    }
    return e;
}

/* Takes bytes of data, an entry's or an extended header's. How many, or -errno. */
static ssize_t take_data(struct tar_reader *r, const char *data, size_t n)
{
    size_t take = n < r->left ? n : (size_t)r->left;
    bool is_file = r->state == DATA;

    int e = is_file ? r->events->data(r->user, data, take) : buf_add(&r->extended, data, take);
    r->left -= take;
    if (e == 0 && r->left == 0) {
        r->state = r->padding > 0 ? PADDING : HEADER;
        e = is_file ? r->events->end(r->user) : tar_take_extended(r);
    }
    return e < 0 ? e : (ssize_t)take;
}

int tar_reader_feed(struct tar_reader *r, const char *data, size_t n)
{
    while (n > 0) {
        ssize_t take = 0;
        int e = 0;
        switch (r->state) {
        case HEADER:
            take = (ssize_t)MIN(n, TAR_BLOCK - r->have);
            memcpy(r->block + r->have, data, (size_t)take);
            r->have = (r->have + (size_t)take) % TAR_BLOCK;
            e = r->have == 0 ? take_header(r) : 0;
            break;
        case DATA:
        case EXTENDED:
            take = take_data(r, data, n);
            e = take < 0 ? (int)take : 0;
            break;
        case PADDING:
            take = (ssize_t)MIN(n, r->padding);
            r->padding -= (size_t)take;
            r->state = r->padding == 0 ? HEADER : PADDING;
            break;
        default:
            take = (ssize_t)n;
            e = is_zero(data, n) ? 0 : tar_refuse(r, "something follows the end of the archive");
            break;
        }
        if (e < 0) {
            return e;
        }
        data += take;
        n -= (size_t)take;
    }
    return 0;
}

int tar_reader_finish(struct tar_reader *r)
{
    return r->state == OVER ? 0 : tar_refuse(r, "the archive is cut off");
}
