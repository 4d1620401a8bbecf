/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The classic walk out of a changed root: keep a directory open, change root below it, climb up.
 *
 * technique: E3 E4
 * held: chroot is refused, and climbing with .. or openat2 from any descriptor ends at our own root
 * expect: status=completed exit=0 stdout~HELD
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void)
{
    struct stat top;
    struct stat climbed;
    int root = open("/", O_RDONLY | O_DIRECTORY);

    mkdir("jail", 0700);
    if (root < 0 || stat("/", &top) < 0)
        return 2;
    if (chroot("jail") == 0) {
        puts("ESCAPED: chroot is allowed");
        return 1;
    }
    for (int i = 0; i < 64; i++) {
        if (chdir("..") < 0)
            return 2;
    }
    if (stat(".", &climbed) < 0 || climbed.st_ino != top.st_ino || climbed.st_dev != top.st_dev) {
        puts("ESCAPED: above the root");
        return 1;
    }
    char *paths = strdup(getenv("HINT_FILES"));
    for (char *path = strsep(&paths, ":"); path != NULL; path = strsep(&paths, ":")) {
        char up[512];

        snprintf(up, sizeof(up), "../../../..%s", path);
        if (openat(root, up, O_RDONLY) >= 0 || openat(root, path, O_RDONLY) >= 0) {
            printf("ESCAPED: %s\n", path);
            return 1;
        }
    }
    puts("HELD");
    return 0;
}
