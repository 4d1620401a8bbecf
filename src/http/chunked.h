/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoder of chunked request bodies. Extensions and trailers are refused: nothing here uses them,
 * and parsers that skip them differ. Pure; works at any split of the input.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum http_chunked_state {
    HTTP_CHUNKED_SIZE, /* the start of every body */
    HTTP_CHUNKED_SIZE_LF,
    HTTP_CHUNKED_DATA,
    HTTP_CHUNKED_DATA_CR,
    HTTP_CHUNKED_DATA_LF,
    HTTP_CHUNKED_LAST_CR,
    HTTP_CHUNKED_LAST_LF,
    HTTP_CHUNKED_DONE,
};

struct http_chunked {
    enum http_chunked_state state;
    uint64_t left;   /* of the chunk in hand */
    unsigned digits; /* of the size in hand */
};

enum http_chunked_step {
    HTTP_CHUNKED_BAD = -1, /* refuse with 400 and close the connection */
    HTTP_CHUNKED_MORE,     /* all input is used up */
    HTTP_CHUNKED_PIECE,    /* *ret_data, *ret_len (> 0) are body; call again with the rest */
    HTTP_CHUNKED_END,      /* the body is complete; the rest of the input is not part of it */
};

/* Consumes *ret_used bytes of the input. A zeroed struct is a new body. */
enum http_chunked_step http_chunked_next(struct http_chunked *c, const char *in, size_t n,
                                         size_t *ret_used, const char **ret_data, size_t *ret_len);
