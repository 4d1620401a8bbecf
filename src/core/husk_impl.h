/* SPDX-License-Identifier: Apache-2.0 */
/* What the handles of the public library stand for. */
#pragma once

struct husk_engine {
    struct engine *inner;
};

struct husk_session {
    struct notebook *inner;
};
