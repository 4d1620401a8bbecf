/* SPDX-License-Identifier: Apache-2.0 */
/* Random bytes; see rand.h. */
#include "base/rand.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

void rand_bytes(void *p, size_t n)
{
    size_t got = 0;

    while (got < n) {
        ssize_t r = getrandom((char *)p + got, n - got, 0);
        if (r > 0) {
            got += (size_t)r;
        } else if (r == 0 || errno != EINTR) {
            abort(); /* cannot happen; better than predictable secrets or an endless loop */
        }
    }
}

void rand_hex(char *dst, size_t size)
{
    static const char digits[] = "0123456789abcdef";

    if (size == 0) {
        return;
    }
    rand_bytes(dst, size - 1);
    for (size_t i = 0; i + 1 < size; i++) {
        dst[i] = digits[(unsigned char)dst[i] & 0xf];
    }
    dst[size - 1] = '\0';
}
