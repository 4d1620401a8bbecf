/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of core/template.h: template files. */
#include "core/template.h"

#include <string.h>

#include "base/str.h"
#include "fuzz.h"
#include "wire/launcher_msg.h"

#define TERMINATED(array) (memchr((array), '\0', sizeof(array)) != NULL)

/* Whatever was accepted can be handed to the launcher as it is. */
static void check_accepted(const struct template_def *def)
{
    FUZZ_CHECK(str_eq(def->info.name, "mine") && str_eq(def->info.origin, "file"));
    FUZZ_CHECK(def->info.language <= HUSK_JAVASCRIPT);
    FUZZ_CHECK(TERMINATED(def->info.runtime) && launcher_path_check(def->info.runtime));
    FUZZ_CHECK(TERMINATED(def->info.about) && TERMINATED(def->info.preload));
    FUZZ_CHECK(TERMINATED(def->root) && TERMINATED(def->warm));
    FUZZ_CHECK(def->host_root || def->root[0] == '/');
    FUZZ_CHECK(TERMINATED(def->seccomp) && str_is_name(def->seccomp));
    FUZZ_CHECK(def->n_mounts <= TEMPLATE_LIST_MAX && def->n_env <= TEMPLATE_LIST_MAX);
    for (size_t i = 0; i < def->n_mounts; i++) {
        FUZZ_CHECK(TERMINATED(def->mounts[i].host) && def->mounts[i].host[0] == '/');
        FUZZ_CHECK(TERMINATED(def->mounts[i].box) && launcher_path_check(def->mounts[i].box));
    }
    for (size_t i = 0; i < def->n_env; i++) {
        FUZZ_CHECK(TERMINATED(def->env[i]) && strchr(def->env[i], '=') > def->env[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct template_def def;
    struct err e = {0};

    memset(&def, 0x5e, sizeof(def));
    if (template_parse("mine", "file", (const char *)data, size, &def, &e) == 0) {
        check_accepted(&def);
        return 0;
    }
    FUZZ_CHECK(e.code == ERR_INVALID && str_starts(e.msg, "file, line "));
    FUZZ_CHECK(def.root[0] == 0x5e && def.n_env == 0x5e5e5e5e5e5e5e5e); /* left alone */
    return 0;
}
