/* SPDX-License-Identifier: Apache-2.0 */
/* Tells a launcher what a template consists of, and starts it: the operator's side. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/template.h"

struct launcher_req;

/* Where the frames go: it sets template_id and seq, and borrows the descriptor (NULL: none). */
struct template_sink {
    int (*put)(void *user, struct launcher_req *req, const int *fd, struct err *e);
    void *user;
};

/* What is not in the definition. */
struct template_choice {
    bool preload;     /* its modules are imported and its warm-up is run */
    uint64_t modules; /* of those that it offers, also these */
    /* the most memory of a box where the template has no max_memory; 0: no bound */
    uint64_t memory_most;
    const struct husk_mount *mounts;
    size_t n_mounts;
};

/* Everything up to START. */
int template_fill(const struct template_def *def, const struct template_choice *choice,
                  const struct template_sink *to, struct err *e);
