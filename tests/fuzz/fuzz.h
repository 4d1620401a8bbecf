/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every fuzz target shares. A target defines LLVMFuzzerTestOneInput(), feeds the bytes to one
 * parser and states with FUZZ_CHECK() what must hold for any input. It must not keep state, write
 * files or start processes: it runs millions of times in one process.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A finding: libFuzzer saves the input, the replay program reports the file. */
#define FUZZ_CHECK(cond)                                                                           \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "# %s:%d: does not hold: %s\n", __FILE__, __LINE__, #cond);            \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
