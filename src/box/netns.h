/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network namespaces with nothing but a loopback interface that is up.
 *
 * Made by the zygote and owned by its user namespace, so no box ever has a right over one. So it is
 * safe to give an unused one to the next box. Must not allocate.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Open files that a zygote must be able to have: it keeps those of namespaces above 255. */
#define NETNS_FILES_LEAST 512

struct netns {
    int ns;    /* for setns() */
    int route; /* netlink socket that lives in it: asks for its counters from outside */
};

/* Leaves the calling process inside the new namespace. Descriptors are owned by *ret. */
int netns_new(struct netns *ret, struct err *e);
/* Gives its descriptors numbers from `first` on. */
int netns_move_up(struct netns *net, int first, struct err *e);
void netns_release(struct netns *net);

int netns_enter(const struct netns *net, struct err *e);

/*
 * True if not one packet ever went through its loopback interface and no socket is in it. Leaves
 * the caller inside it.
 */
bool netns_is_untouched(const struct netns *net);
