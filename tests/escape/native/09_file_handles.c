/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening files of the host by their handle, without a path: inode 2 is the root of ext4.
 *
 * technique: E14
 * held: neither making nor opening a handle is allowed
 * expect: status=completed exit=0 stdout~HELD
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct handle {
    struct file_handle head;
    unsigned char bytes[8];
};

int main(void)
{
    struct handle root = {.head = {.handle_bytes = 8, .handle_type = 1}, .bytes = {2}};
    struct handle own = {.head = {.handle_bytes = 8}};
    int mount_id = 0;
    int held = 1;

    int start = open("/", O_RDONLY | O_DIRECTORY);
    for (int type = 0; type < 8; type++) {
        root.head.handle_type = type;
        if (open_by_handle_at(start, &root.head, O_RDONLY) >= 0 || errno != EPERM)
            held = 0;
    }
    if (name_to_handle_at(start, "etc", &own.head, &mount_id, 0) == 0 || errno != EPERM)
        held = 0;
    puts(held ? "HELD" : "ESCAPED: handles can be used");
    return !held;
}
