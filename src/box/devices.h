/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The /dev of a box: six harmless devices and the usual links.
 *
 * With root it is one small file system, made once and cloned into every template: one mount for
 * boxes to copy instead of seven. Without root no node can be made, and the host's are bound one
 * by one (root.c).
 */
#pragma once

#include "base/err.h"

struct device {
    const char *name;
    unsigned major;
    unsigned minor;
};

struct device_link {
    const char *name;
    const char *text;
};

extern const struct device devices[];
extern const unsigned devices_n;
extern const struct device_link device_links[];
extern const unsigned device_links_n;

/*
 * A detached, read-only mount with all of it, and a directory for devpts. Owned descriptor, or -1
 * and *e.
 */
int devices_mount(struct err *e);
