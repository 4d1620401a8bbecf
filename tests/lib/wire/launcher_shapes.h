/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the launcher with nothing wrong in them: tests change one thing and send that. */
#pragma once

#include <stddef.h>

#include "wire/launcher_msg.h"

struct launcher_req shape_of(uint32_t op);

/* The least and the most descriptors that may come with the operation. */
size_t shape_fds(uint32_t op);
size_t shape_most_fds(uint32_t op);
