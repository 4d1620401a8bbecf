/* SPDX-License-Identifier: Apache-2.0 */
/* runner/maps.h, runner/clonesync.h: the list of mappings, and how zygote and child wait. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "runner/clonesync.h"
#include "runner/maps.h"
#include "tap.h"

#define PAGE ((size_t)4096)

static const struct mapping *find(const struct maps *m, const void *at)
{
    for (size_t i = 0; i < m->n; i++) {
        if (m->list[i].start <= (uintptr_t)at && (uintptr_t)at < m->list[i].end) {
            return &m->list[i];
        }
    }
    return NULL;
}

TEST(mappings_are_listed_with_their_rights)
{
    char *area = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *shared = mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int local = 0;

    CHECK(area != MAP_FAILED && shared != MAP_FAILED);
    CHECK_INT(mprotect(area + PAGE, PAGE, PROT_READ), 0);
    CHECK_INT(munmap(area + 2 * PAGE, PAGE), 0);
    struct maps *m = maps_read();
    CHECK(m != NULL);

    const struct mapping *first = find(m, area);
    CHECK(first != NULL && first->is_private && first->prot == (PROT_READ | PROT_WRITE));
    const struct mapping *second = find(m, area + PAGE);
    CHECK(second == first + 1 && second->prot == PROT_READ);
    CHECK_INT(second->end - second->start, PAGE);
    CHECK(maps_adjoin(m, (size_t)(second - m->list)));
    CHECK(find(m, area + 2 * PAGE) == NULL);
    const struct mapping *behind = find(m, area + 3 * PAGE);
    CHECK(behind == second + 1 && !maps_adjoin(m, (size_t)(behind - m->list)));
    CHECK(!maps_adjoin(m, 0) && !maps_adjoin(m, m->n));

    CHECK(find(m, shared) != NULL && !find(m, shared)->is_private);
    CHECK(find(m, &local) != NULL && find(m, &local)->is_stack);
    CHECK(!first->is_stack && !first->is_kernel);
    maps_free(m);
    maps_free(NULL);
}

TEST(memory_that_a_child_gets_empty_is_told_apart)
{
    char *wiped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *absent = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *plain = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK_INT(madvise(wiped, PAGE, MADV_WIPEONFORK) + madvise(absent, PAGE, MADV_DONTFORK), 0);
    struct maps *m = maps_read();
    CHECK(m != NULL);
    CHECK(!find(m, wiped)->is_kept_back);
    CHECK_INT(maps_read_flags(m), 0);
    CHECK(find(m, wiped)->is_kept_back);
    CHECK(find(m, absent)->is_kept_back);
    CHECK(!find(m, plain)->is_kept_back);
    maps_free(m);
}

/* A child that leaves the table, waits for its maps, and ends with 7. */
static NORETURN void be_child(void)
{
    clonesync_say_left();
    clonesync_await_mapped();
    _exit(7);
}

TEST(a_zygote_and_its_child_wait_for_each_other)
{
    int status = 0;

    CHECK_INT(clonesync_open(4), 0);
    for (size_t slot = 3; slot-- > 1;) { /* the second is not confused by the first */
        clonesync_begin(slot);
        pid_t pid = fork();
        if (pid == 0) {
            be_child();
        }
        int pidfd = pidfd_open(pid, 0);
        CHECK(pidfd >= 0);
        clonesync_await_left(pidfd);
        CHECK_INT(waitpid(pid, &status, WNOHANG), 0);
        clonesync_say_mapped();
        CHECK_INT(waitpid(pid, &status, 0), pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        close(pidfd);
    }
}

TEST(a_zygote_does_not_wait_for_a_dead_child)
{
    CHECK_INT(clonesync_open(1), 0);
    clonesync_begin(0);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    int pidfd = pidfd_open(pid, 0);
    clonesync_await_left(pidfd); /* returns, although nothing was said */
    close(pidfd);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}

TEST(a_child_cannot_reach_the_words_after_its_birth)
{
    int status = 0;

    CHECK_INT(clonesync_open(2), 0);
    clonesync_begin(1);
    clonesync_say_mapped();
    pid_t pid = fork();
    if (pid == 0) {
        sigaction(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        clonesync_await_mapped();
        clonesync_say_left(); /* a fault: the memory is gone */
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}
