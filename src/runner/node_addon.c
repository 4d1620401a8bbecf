/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a context in JavaScript needs and Node.js does not offer: put a descriptor in the place of
 * another, keep one from programs that it starts, and stop code that runs.
 *
 * Node.js can stop a script at SIGINT, but while it takes its handler away again the signal ends
 * the process. So we have a handler of our own, which stays, and a thread that stops the code of
 * the cell for which the signal came. Code that is not guarded, because it goes on after an await,
 * is stopped when a second signal comes for the same cell: the first one may have found code of
 * Node.js itself.
 *
 * An addon of Node-API, whose binary interface does not change between versions of Node.js. Its
 * symbols and those of libc come from the process that loads it, so it fits every C library.
 */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* The part of Node-API that is used here; 0 is success everywhere. */
struct napi_env;
struct napi_value;
struct napi_info;

int napi_get_cb_info(struct napi_env *env, struct napi_info *info, size_t *argc,
                     struct napi_value **argv, struct napi_value **self, void **data);
int napi_get_value_int32(struct napi_env *env, struct napi_value *value, int32_t *ret);
int napi_create_int32(struct napi_env *env, int32_t value, struct napi_value **ret);
int napi_create_function(struct napi_env *env, const char *name, size_t length,
                         struct napi_value *(*callback)(struct napi_env *, struct napi_info *),
                         void *data, struct napi_value **ret);
int napi_call_function(struct napi_env *env, struct napi_value *self, struct napi_value *f,
                       size_t argc, struct napi_value *const *argv, struct napi_value **ret);
int napi_get_global(struct napi_env *env, struct napi_value **ret);
int napi_is_exception_pending(struct napi_env *env, bool *ret);
int napi_get_and_clear_last_exception(struct napi_env *env, struct napi_value **ret);
int napi_set_named_property(struct napi_env *env, struct napi_value *object, const char *name,
                            struct napi_value *value);

struct napi_value *napi_register_module_v1(struct napi_env *env, struct napi_value *exports);

/* Of V8: v8::Isolate::GetCurrent(), TerminateExecution(), CancelTerminateExecution(). */
void *isolate_current(void) __asm__("_ZN2v87Isolate10GetCurrentEv");
void isolate_terminate(void *isolate) __asm__("_ZN2v87Isolate18TerminateExecutionEv");
void isolate_cancel(void *isolate) __asm__("_ZN2v87Isolate24CancelTerminateExecutionEv");

static void *isolate;
static sem_t signalled;
static _Atomic int current; /* number of the cell that runs; 0: none */
static _Atomic int target;  /* for which the last signal came */
static _Atomic int tries;   /* signals for the current cell that stopped nothing */
static _Atomic bool is_guarded;
static _Atomic bool is_stopped; /* since the guard began */

#define NAME_LENGTH SIZE_MAX /* the name ends with NUL */

/* Missing arguments are -1, which no call takes for a descriptor. */
static void get_numbers(struct napi_env *env, struct napi_info *info, int32_t ret[2])
{
    struct napi_value *values[2] = {NULL, NULL};
    size_t n = 2;

    ret[0] = ret[1] = -1;
    if (napi_get_cb_info(env, info, &n, values, NULL, NULL) != 0) {
        return;
    }
    for (size_t i = 0; i < n && i < 2; i++) {
        (void)napi_get_value_int32(env, values[i], &ret[i]);
    }
}

static struct napi_value *number(struct napi_env *env, int value)
{
    struct napi_value *ret = NULL;

    (void)napi_create_int32(env, value, &ret);
    return ret;
}

/* place(from, to): what `from` is also is `to`; negative: it failed. */
static struct napi_value *place(struct napi_env *env, struct napi_info *info)
{
    int32_t fds[2];

    get_numbers(env, info, fds);
    return number(env, dup3(fds[0], fds[1], 0));
}

/* closeOnExec(fd) */
static struct napi_value *close_on_exec(struct napi_env *env, struct napi_info *info)
{
    int32_t fds[2];

    get_numbers(env, info, fds);
    return number(env, fcntl(fds[0], F_SETFD, FD_CLOEXEC));
}

/* ---- interrupts ---- */

static void on_interrupt(int sig)
{
    (void)sig;
    atomic_store(&target, atomic_load(&current));
    (void)sem_post(&signalled);
}

static void *stop_cells(void *unused)
{
    (void)unused;
    for (;;) {
        if (sem_wait(&signalled) != 0) {
            continue;
        }
        int cell = atomic_load(&current);
        if (cell == 0 || cell != atomic_load(&target)) {
            continue; /* it is over */
        }
        if (atomic_load(&is_guarded) || atomic_fetch_add(&tries, 1) > 0) {
            atomic_store(&is_stopped, true);
            isolate_terminate(isolate);
        }
    }
    return NULL;
}

/* watch(): negative if interrupts cannot work. */
static struct napi_value *watch(struct napi_env *env, struct napi_info *info)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigset_t all;
    sigset_t old;
    pthread_t thread;

    (void)info;
    isolate = isolate_current();
    (void)sigfillset(&all);
    if (isolate == NULL || sem_init(&signalled, 0, 0) != 0) {
        return number(env, -1);
    }
    (void)pthread_sigmask(SIG_SETMASK, &all, &old); /* the thread takes no signal */
    int r = pthread_create(&thread, NULL, stop_cells, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return number(env, r != 0 ? -1 : sigaction(SIGINT, &action, NULL));
}

/* begin(number): a cell runs from now on; 0: none. */
static struct napi_value *begin(struct napi_env *env, struct napi_info *info)
{
    int32_t numbers[2];

    get_numbers(env, info, numbers);
    atomic_store(&tries, 0);
    atomic_store(&current, numbers[0]);
    return number(env, 0);
}

/* guard(f): calls it. 1: an interrupt has stopped it. */
static struct napi_value *guard(struct napi_env *env, struct napi_info *info)
{
    struct napi_value *f = NULL;
    struct napi_value *self = NULL;
    struct napi_value *ignored = NULL;
    size_t n = 1;
    bool outer = atomic_load(&is_guarded);

    if (napi_get_cb_info(env, info, &n, &f, NULL, NULL) != 0 || napi_get_global(env, &self) != 0) {
        return NULL;
    }
    atomic_store(&is_stopped, false);
    atomic_store(&is_guarded, true);
    int r = napi_call_function(env, self, f, 0, NULL, &ignored);
    atomic_store(&is_guarded, outer);
    if (!atomic_load(&is_stopped)) {
        return number(env, 0);
    }
    (void)r;
    isolate_cancel(isolate);
    bool is_pending = false;
    if (napi_is_exception_pending(env, &is_pending) == 0 && is_pending) {
        (void)napi_get_and_clear_last_exception(env, &ignored);
    }
    return number(env, 1);
}

__attribute__((visibility("default"))) struct napi_value *
napi_register_module_v1(struct napi_env *env, struct napi_value *exports)
{
    static const struct {
        const char *name;
        struct napi_value *(*callback)(struct napi_env *env, struct napi_info *info);
    } functions[] = {{"place", place},
                     {"closeOnExec", close_on_exec},
                     {"watch", watch},
                     {"begin", begin},
                     {"guard", guard}};

    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        struct napi_value *f = NULL;
        (void)napi_create_function(env, functions[i].name, NAME_LENGTH, functions[i].callback, NULL,
                                   &f);
        (void)napi_set_named_property(env, exports, functions[i].name, f);
    }
    return exports;
}
