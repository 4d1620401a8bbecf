/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean ...?": the name that a mistyped word probably means. */
#pragma once

#include <stddef.h>

/* The nearest of names, or NULL when none is near enough to show. */
const char *suggest(const char *word, const char *const *names, size_t n);
