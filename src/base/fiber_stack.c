/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of fibers; see fiber_stack.h. */
#include "base/fiber_stack.h"

#include <errno.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#    define FIBER_ASAN 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define FIBER_ASAN 1
#    endif
#endif
#ifdef FIBER_ASAN
#    include <sanitizer/common_interface_defs.h>
#    define STACK_SIZE ((size_t)1 << 20) /* the sanitizer's frames are many times larger */
#else
#    define STACK_SIZE ((size_t)256 << 10) /* only touched pages take memory */
#endif
#define GUARD_SIZE ((size_t)4096)

static _Thread_local struct fiber_stack *entering; /* read by the function that starts */

int fiber_stack_init(struct fiber_stack *s)
{
    char *memory = mmap(NULL, STACK_SIZE + GUARD_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

    if (memory == MAP_FAILED) {
        return -errno;
    }
    if (mprotect(memory, GUARD_SIZE, PROT_NONE) < 0) {
        int r = -errno;
        munmap(memory, STACK_SIZE + GUARD_SIZE);
        return r;
    }
    *s = (struct fiber_stack){.memory = memory};
    return 0;
}

void fiber_stack_release(struct fiber_stack *s)
{
    munmap(s->memory, STACK_SIZE + GUARD_SIZE);
    s->memory = NULL;
}

static void entered(struct fiber_stack *s)
{
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(s->fake, &s->back_memory, &s->back_size);
#else
    (void)s;
#endif
}

void fiber_stack_enter(struct fiber_stack *s)
{
    entering = s;
#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(&s->back_fake, s->memory + GUARD_SIZE, STACK_SIZE);
#endif
    swapcontext(&s->back, &s->context);
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(s->back_fake, NULL, NULL);
#endif
}

void fiber_stack_leave(struct fiber_stack *s)
{
    int saved = errno;

#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(s->over ? NULL : &s->fake, s->back_memory, s->back_size);
#endif
    swapcontext(&s->context, &s->back);
    entered(s);
    errno = saved;
}

static void trampoline(void)
{
    struct fiber_stack *s = entering;

    entered(s);
    s->fn(s->user);
    s->over = true;
    fiber_stack_leave(s);
}

/*
 * getcontext() returns twice, like setjmp(), and compilers distrust locals beside it: this function
 * has none.
 */
void fiber_stack_prepare(struct fiber_stack *s, void (*fn)(void *user), void *user)
{
    s->fn = fn;
    s->user = user;
    s->over = false;
    s->fake = NULL;
    getcontext(&s->context);
    s->context.uc_stack.ss_sp = s->memory + GUARD_SIZE;
    s->context.uc_stack.ss_size = STACK_SIZE;
    makecontext(&s->context, trampoline, 0);
}
