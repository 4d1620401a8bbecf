/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over its saved samples, so that each input that ever broke something is a
 * regression test from the moment its file is added. Linked with one target at a time.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "fuzz.h"
#include "tap.h"

static void replay_file(int dirfd, const char *name)
{
    AUTO_FREE uint8_t *data = NULL;
    AUTO_CLOSE int fd = -1;
    struct stat st;

    fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_INT(fstat(fd, &st), 0);

    /* Exactly as large as the sample: one byte read beyond it is seen by the address sanitizer. */
    size_t size = (size_t)st.st_size;
    data = malloc(size > 0 ? size : 1);
    CHECK(data != NULL);
    CHECK_INT(fd_read_all(fd, data, size), size);
    CHECK_INT(LLVMFuzzerTestOneInput(data, size), 0);
}

TEST_TIMEOUT(samples, 120)
{
    int replayed = 0;

    DIR *dir = opendir(FUZZ_CORPUS);
    CHECK(dir != NULL);
    for (struct dirent *d = readdir(dir); d != NULL; d = readdir(dir)) {
        if (d->d_name[0] != '.') {
            CASE("%s", d->d_name);
            replay_file(dirfd(dir), d->d_name);
            replayed++;
        }
    }
    closedir(dir);
    CASE(FUZZ_CORPUS " is empty");
    CHECK(replayed > 0);
}
