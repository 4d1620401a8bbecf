/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a box is set up (child side).
 *
 * The zygote lives in the template's root; its child starts with copies of that root's mounts, all
 * of them locked, in a user namespace of its own. The child walks `steps` from top to bottom. Each
 * step may rely on those above it, so the order is the security argument: what takes privilege
 * away comes after the last step that needs it.
 *
 * Must not: allocate, log, or return success after a failure.
 */
#include "box/setup.h"

#include "base/attr.h"
#include "box/steps.h"

static const struct step {
    const char *name;
    int (*run)(struct box_setup *s, struct err *e);
} steps[] = {
    {"cgroup", step_cgroup},         /* first: everything below is charged to the box */
    {"memory", step_memory},         /* pages of its own, while the parent writes the id maps */
    {"id maps", step_id_maps},       /* waits for them; without, no id and no file is ours */
    {"ids", step_ids},               /* the box's own; files can be made only by a mapped id */
    {"identity", step_identity},     /* new session and host name; needs CAP_SYS_ADMIN inside */
    {"disk", step_disk},             /* the one writable file system, sized */
    {"proc", step_proc},             /* of the new pid namespace; writable for the next step only */
    {"quotas", step_quotas},         /* through that /proc */
    {"proc masks", step_proc_masks}, /* from here on it is read-only */
    {"devpts", step_devpts},         /* terminals of its own; last mount */
    {"rlimits", step_rlimits},       /* inherited hard limits can only be lowered */
    {"bounding set", step_bounding}, /* needs CAP_SETPCAP */
    {"capabilities", step_caps},     /* nothing below may need one; sets no_new_privs */
    {"landlock", step_landlock},     /* needs no_new_privs; opens paths, so before seccomp */
    {"descriptors", step_descriptors}, /* closes what the steps above held open */
    {"seccomp", step_seccomp},         /* last: the filter forbids the calls above */
};

int box_setup(struct box_setup *s, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        if (steps[i].run(s, e) < 0) {
            return err_wrap(e, "isolation step \"%s\"", steps[i].name);
        }
    }
    return 0;
}
