/* SPDX-License-Identifier: Apache-2.0 */
/* Owned texts and new ids. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rand.h"
#include "base/str.h"
#include "service/service_impl.h"

/*
 * gcc 12's analyzer loses sight of what a record owns once it is stored there; text_list_free()
 * frees it.
 */
#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

char *text_copy(const char *s)
{
    return strdup(s != NULL ? s : "");
}

void text_list_free(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        free(list[i]);
    }
    free(list);
}

char **text_list_copy(const char *const *list)
{
    size_t n = 0;

    if (list == NULL) {
        return NULL;
    }
    while (list[n] != NULL) {
        n++;
    }
    char **copy = calloc(n + 1, sizeof(*copy));
    for (size_t i = 0; copy != NULL && i < n; i++) {
        copy[i] = strdup(list[i]);
        if (copy[i] == NULL) {
            text_list_free(copy);
            return NULL;
        }
    }
    return copy;
}

/* 80 random bits cannot be guessed. Executions carry the date first, so that they sort. */
void id_make(char *ret, size_t size, const char *prefix)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345"; /* 32: no bias */
    char random[17] = "";
    uint8_t bytes[16];

    rand_bytes(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        random[i] = letters[bytes[i] % 32];
    }
    if (str_eq(prefix, "exec_")) {
        time_t now = time(NULL);
        struct tm utc;
        char stamp[16];
        gmtime_r(&now, &utc);
        strftime(stamp, sizeof(stamp), "%Y%m%d", &utc);
        (void)str_format(ret, size, "%s%s_%s", prefix, stamp, random);
        return;
    }
    (void)str_format(ret, size, "%s%s", prefix, random);
}
