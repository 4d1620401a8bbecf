/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of the workspace a cell has made or changed, as runtimes/python/artifacts.py does. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/str.h"
#include "base/units.h"
#include "box/setup.h"
#include "runner/driver_impl.h"

#define NAMES_MAX 1000
#define LOOKED_AT_MAX 20000 /* a huge workspace costs a cell some milliseconds, not more */
#define DEPTH_MAX 64

struct walk {
    uint64_t start_ns;
    struct buf *names;
    size_t n;
    size_t looked_at;
};

/* The clock of files: it advances in steps, and is never ahead of the times that files get. */
uint64_t artifacts_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME_COARSE, &t);
    return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/* One more string of the array, with room for its end. False: there is none. */
static bool add_name(struct walk *w, const char *name)
{
    struct buf *b = w->names;
    AUTO_BUF struct buf text = BUF_INIT(8192);
    AUTO_BUF struct buf item = BUF_INIT(65536);
    bool ok = buf_add_utf8(&text, name, strlen(name)) == 0 &&
              buf_add_str(&item, w->n > 0 ? ", \"" : "\"") == 0;

    for (size_t i = 0; ok && i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c < ' ') {
            ok = buf_printf(&item, "\\u%04x", c) == 0;
        } else {
            ok = ((c != '"' && c != '\\') || buf_add(&item, "\\", 1) == 0) &&
                 buf_add(&item, &text.data[i], 1) == 0;
        }
    }
    if (!ok || buf_add(&item, "\"", 1) < 0 || b->len + item.len + 1 > b->max) {
        return false;
    }
    w->n++;
    return buf_add(b, item.data, item.len) == 0;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* All that is not hidden, folder by folder, no link followed. False: enough was seen. */
static bool walk(struct walk *w, const char *folder, unsigned depth)
{
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, is_visible, alphasort);
    bool go_on = true;

    for (int i = 0; i < n; i++) {
        char path[4096];
        struct stat st;
        go_on = go_on && ++w->looked_at <= LOOKED_AT_MAX && w->n < NAMES_MAX;
        bool is_there = go_on &&
                        str_format(path, sizeof(path), "%s/%s", folder, entries[i]->d_name) == 0 &&
                        lstat(path, &st) == 0;
        if (is_there && S_ISREG(st.st_mode)) {
            uint64_t changed =
                (uint64_t)st.st_ctim.tv_sec * NS_PER_SEC + (uint64_t)st.st_ctim.tv_nsec;
            go_on = changed < w->start_ns || add_name(w, path + sizeof(BOX_WORKSPACE));
        } else if (is_there && S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
            go_on = walk(w, path, depth + 1);
        }
        free(entries[i]);
    }
    free(entries);
    return go_on;
}

void artifacts_since(uint64_t start_ns, struct buf *ret)
{
    struct walk w = {.start_ns = start_ns, .names = ret};

    (void)buf_add(ret, "[", 1);
    (void)walk(&w, BOX_WORKSPACE, 0);
    (void)buf_add(ret, "]", 1);
}
