/* SPDX-License-Identifier: Apache-2.0 */
/* See signals.h. */
#include "base/signals.h"

#include <signal.h>
#include <stddef.h>

void signals_reset(void)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int i = 1; i < NSIG; i++) {
        (void)sigaction(i, &usual, NULL); /* SIGKILL, SIGSTOP and libc's own cannot be set */
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}
