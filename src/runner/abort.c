/* SPDX-License-Identifier: Apache-2.0 */
/* Reporting abort() from PID 1; see abort.h. Async-signal-safe. */
#include "runner/abort.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/setup.h"

static const uint8_t *current_token; /* FRAME_TOKEN_SIZE bytes */

static void on_abort(int sig)
{
    struct {
        struct frame_head head;
        uint32_t exit_key, exit_len, exit_code;
        uint32_t signal_key, signal_len, signal;
    } done = {
        .head = {.type = FRAME_DONE, .len = sizeof(done) - sizeof(done.head)},
        .exit_key = KEY_EXIT,
        .exit_len = sizeof(uint32_t),
        .exit_code = 128u + (uint32_t)sig,
        .signal_key = KEY_SIGNAL,
        .signal_len = sizeof(uint32_t),
        .signal = (uint32_t)sig,
    };

    if (getpid() == 1) {
        memcpy(done.head.token, current_token, sizeof(done.head.token));
        (void)fd_send(BOX_CONTROL_FD, &done, sizeof(done), NULL, 0, 0);
        _exit(128 + sig);
    }
    /*
     * A child of the interpreter: the default action works there, and SA_RESETHAND has restored it.
     */
    (void)raise(sig);
}

void abort_report(const uint8_t *token)
{
    struct sigaction action = {.sa_handler = on_abort, .sa_flags = SA_RESETHAND | SA_NODEFER};

    current_token = token;
    (void)sigaction(SIGABRT, &action, NULL);
}
