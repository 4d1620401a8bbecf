/* SPDX-License-Identifier: Apache-2.0 */
/* How files look to clients: text of names, times, ETags, content types; see file_work.h. Pure. */
#include <string.h>
#include <time.h>

#include "api/files/file_work.h"
#include "base/str.h"
#include "base/units.h"

const char *file_kind_word(uint32_t kind)
{
    switch (kind) {
    case FILES_FILE:
        return "file";
    case FILES_DIRECTORY:
        return "directory";
    case FILES_LINK:
        return "symlink";
    default:
        return "other";
    }
}

/* Rounded down, also before 1970: what a box says may be any number. */
static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0 ? 1 : 0);
}

int64_t file_time_ms(const struct files_info *info)
{
    return floor_div(info->mtime_ns, NS_PER_MS);
}

void file_time_text(int64_t ms, char dst[FILE_TIME_SIZE])
{
    time_t seconds = (time_t)floor_div(ms, 1000);
    struct tm tm;
    char head[FILE_TIME_SIZE];

    if (gmtime_r(&seconds, &tm) == NULL ||
        strftime(head, sizeof(head), "%Y-%m-%dT%H:%M:%S", &tm) == 0 ||
        str_format(dst, FILE_TIME_SIZE, "%s.%03dZ", head, (int)(ms - seconds * 1000)) < 0) {
        (void)str_copy(dst, FILE_TIME_SIZE, "1970-01-01T00:00:00.000Z");
    }
}

/*
 * By the time of the last change of anything, because code can set that of the content as it
 * likes, and by the inode, because what replaces a file within one tick of the kernel's clock has
 * the same time, but never the same inode.
 */
void file_etag(const struct files_info *info, char dst[HTTP_ETAG_SIZE])
{
    const struct timespec changed = {.tv_nsec = (long)info->ctime_ns}; /* it adds both up */

    http_etag(info->size, changed, info->inode, dst);
}

void file_extension(const char *name, char dst[FILE_EXTENSION_SIZE])
{
    const char *slash = strrchr(name, '/');
    const char *base = slash != NULL ? slash + 1 : name;
    const char *dot = strrchr(base, '.');

    if (dot == NULL || dot == base || str_copy(dst, FILE_EXTENSION_SIZE, dot + 1) < 0) {
        dst[0] = '\0';
        return;
    }
    for (char *p = dst; *p != '\0'; p++) {
        if (*p >= 'A' && *p <= 'Z') {
            *p |= 0x20;
        }
    }
}

const char *file_content_type(const char *name)
{
    static const struct {
        const char *extension;
        const char *type;
    } types[] = {
        {"bmp", "image/bmp"},
        {"css", "text/css; charset=utf-8"},
        {"csv", "text/csv; charset=utf-8"},
        {"gif", "image/gif"},
        {"gz", "application/gzip"},
        {"htm", "text/html; charset=utf-8"},
        {"html", "text/html; charset=utf-8"},
        {"ico", "image/x-icon"},
        {"jpeg", "image/jpeg"},
        {"jpg", "image/jpeg"},
        {"js", "text/javascript; charset=utf-8"},
        {"json", "application/json"},
        {"log", "text/plain; charset=utf-8"},
        {"md", "text/markdown; charset=utf-8"},
        {"mp3", "audio/mpeg"},
        {"mp4", "video/mp4"},
        {"pdf", "application/pdf"},
        {"png", "image/png"},
        {"py", "text/x-python; charset=utf-8"},
        {"sh", "text/x-shellscript; charset=utf-8"},
        {"svg", "image/svg+xml"},
        {"tar", "application/x-tar"},
        {"tsv", "text/tab-separated-values; charset=utf-8"},
        {"txt", "text/plain; charset=utf-8"},
        {"wav", "audio/wav"},
        {"webp", "image/webp"},
        {"xml", "application/xml"},
        {"yaml", "application/yaml"},
        {"yml", "application/yaml"},
        {"zip", "application/zip"},
    };
    char extension[FILE_EXTENSION_SIZE];

    file_extension(name, extension);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (str_eq(types[i].extension, extension)) {
            return types[i].type;
        }
    }
    return "application/octet-stream";
}
