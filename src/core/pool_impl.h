/* SPDX-License-Identifier: Apache-2.0 */
/* What pool.c (boxes come and go) and pool_size.c (how many there are to be) share. */
#pragma once

#include "core/engine_impl.h"

/*
 * The pool of a mode whose boxes have those limits, or that was set by husk_pool_set(). NULL: there
 * is none.
 */
struct pool *pool_find(const struct live_template *live, enum launcher_mode mode,
                       const struct limits *limits);
struct pool *pool_find_fixed(const struct live_template *live, enum launcher_mode mode);
/* A parked box, a warm (or cool) one if there is. NULL: none is parked. */
struct guest *pool_pop(struct pool *pool, bool warm_first);
bool pool_same_limits(const struct limits *a, const struct limits *b);
