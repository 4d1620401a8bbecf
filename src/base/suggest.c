/* SPDX-License-Identifier: Apache-2.0 */
/* Nearest name by edit distance; see suggest.h. */
#include "base/suggest.h"

#include <string.h>

#include "base/attr.h"

#define WORD_MAX 63

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][WORD_MAX + 2];
    size_t la = strlen(a);
    size_t lb = strlen(b);

    for (size_t j = 0; j <= lb; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= la; i++) {
        size_t *now = rows[i % 3];
        const size_t *last = rows[(i + 2) % 3];
        const size_t *before = rows[(i + 1) % 3];

        now[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = MIN(last[j], now[j - 1]) + 1;

            best = MIN(best, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                best = MIN(best, before[j - 2] + 1);
            }
            now[j] = best;
        }
    }
    return rows[la % 3][lb];
}

const char *suggest(const char *word, const char *const *names, size_t n)
{
    size_t len = strlen(word);
    size_t best = len < 4 ? 2 : 3; /* a suggestion must be nearer than this */
    const char *found = NULL;

    if (len == 0 || len > WORD_MAX) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (strlen(names[i]) > WORD_MAX) {
            continue;
        }
        size_t d = distance(word, names[i]);
        if (d < best) {
            best = d;
            found = names[i];
        }
    }
    return found;
}
