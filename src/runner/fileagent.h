/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file worker: reads, writes, lists and packs files of /workspace for its peer
 * (core/box_files.c). Runs inside the box with exactly the rights of its user code, so a path that
 * hostile code rearranges leads only to files that this code could have opened itself.
 *
 * Every path is resolved beneath one directory descriptor with openat2(); nothing falls back to
 * anything weaker.
 */
#pragma once

#include "base/attr.h"

/* Serves requests until the socket closes. For a process of its own, just forked. */
NORETURN void fileagent_serve(int sock);
