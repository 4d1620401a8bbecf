/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of served agents as a sealed file in memory; see agents_plan.h. Must not accept a file
 * that another process can change.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "config/agents_plan_impl.h"

#define ORIGIN "the plan of agents" /* its name in messages */
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static int seal(const char *text, size_t n, struct err *e)
{
    AUTO_CLOSE int fd = memfd_create("husk-agents", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0) {
        return err_sys(e, errno, "cannot create a file in memory for " ORIGIN);
    }
    int r = fd_write_all(fd, text, n);
    if (r == 0 && fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
        r = -errno;
    }
    return r < 0 ? err_sys(e, -r, "cannot seal " ORIGIN) : take_fd(&fd);
}

int agents_plan_seal(const struct agents_plan *plan, struct err *e)
{
    if (plan == NULL) {
        return seal("", 0, e);
    }
    if (agents_plan_check(plan, false, ORIGIN, e) < 0) {
        return -1;
    }
    AUTO_FREE char *text = agents_plan_text(plan);
    if (text == NULL || strlen(text) > AGENTS_PLAN_FILE_MAX) {
        return err_set(e, ERR_INVALID, ORIGIN ": a name or text is not UTF-8, or it is too long");
    }
    return seal(text, strlen(text), e);
}

int agents_plan_read_sealed(int fd, struct agents_plan *ret, struct err *e)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;

    if (seals < 0 || (seals & SEALS) != SEALS) {
        return err_set(e, ERR_INVALID,
                       ORIGIN " is not a sealed file in memory, so it is not trusted");
    }
    if (fstat(fd, &st) < 0) {
        return err_sys(e, errno, "cannot read " ORIGIN);
    }
    if (st.st_size == 0) {
        return 0;
    }
    if (st.st_size > (off_t)AGENTS_PLAN_FILE_MAX) {
        return err_set(e, ERR_INVALID, ORIGIN " is too large");
    }
    AUTO_FREE char *text = malloc((size_t)st.st_size);
    ssize_t n = text == NULL ? -1 : pread(fd, text, (size_t)st.st_size, 0);
    if (n != st.st_size) {
        return err_sys(e, text == NULL ? ENOMEM : EIO, "cannot read " ORIGIN);
    }
    return agents_plan_parse(text, (size_t)n, ORIGIN, ret, e);
}
