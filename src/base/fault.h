/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places where a test can kill this process: FAULT_POINT("store.commit.before").
 *
 * They are empty unless the build was configured with -Dfault_points=true. In such a build
 * HUSK_TEST_FAULT_AT names a file that says `label` or `label:N`. It is read once, before main(),
 * and removed: it is meant for this process and not for its successor. When the process passes the
 * label for the first or Nth time it ends, as by kill -9.
 *
 * Labels are unique. tests/integration/server/test_server_fault_points.py lists them and passes
 * each one.
 */
#pragma once

#ifdef FAULT_POINTS
void fault_point(const char *label);
#    define FAULT_POINT(label) fault_point(label)
#else
#    define FAULT_POINT(label) ((void)0)
#endif
