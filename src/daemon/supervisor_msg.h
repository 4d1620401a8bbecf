/* SPDX-License-Identifier: Apache-2.0 */
/* What a supervisor (`husk up`) and the daemon it starts tell each other, over a SEQPACKET socket that the daemon has as descriptor 3. */
#pragma once

#include <stdint.h>

#define SUPERVISOR_FD 3
#define SUPERVISOR_LISTENERS_MAX 15 /* one message carries them and the launcher's socket */

/* To the daemon, once, with descriptors: the launcher's socket, then the listening ones. */
struct supervisor_start {
    uint32_t n_listeners;
};

/* Back, once: it serves. */
struct supervisor_ready {
    uint32_t pid;
};
