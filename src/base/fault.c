/* SPDX-License-Identifier: Apache-2.0 */
/* Only in test builds; see fault.h. Does not allocate, and may be used on every thread. */
#include "base/fault.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"

static char armed[64]; /* "": no fault */
static uint64_t passes_left = 1;

/*
 * Runs before there are threads. A file that cannot be removed would kill every successor too, so
 * it is ignored.
 */
__attribute__((constructor)) static void arm(void)
{
    const char *path = getenv("HUSK_TEST_FAULT_AT");
    char text[sizeof(armed)];

    if (path == NULL || fd_read_file(AT_FDCWD, path, text, sizeof(text)) <= 0 || unlink(path) < 0) {
        return;
    }
    text[strcspn(text, "\n")] = '\0';
    char *colon = strchr(text, ':');
    if (colon != NULL) {
        *colon = '\0';
        if (parse_u64(colon + 1, &passes_left) < 0) {
            return;
        }
    }
    (void)str_copy(armed, sizeof(armed), text);
}

void fault_point(const char *label)
{
    bool is_meant = armed[0] != '\0' && str_eq(label, armed);

    if (is_meant && __atomic_sub_fetch(&passes_left, 1, __ATOMIC_RELAXED) == 0) {
        (void)kill(getpid(), SIGKILL);
    }
}
