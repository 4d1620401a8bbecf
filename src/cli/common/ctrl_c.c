/* SPDX-License-Identifier: Apache-2.0 */
/* Signals as a readable descriptor; see ctrl_c.h. The handler may only write() and _exit(). */
#include "cli/common/ctrl_c.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int event_fd = -1;
static volatile sig_atomic_t seen;

void ctrl_c_raise(void)
{
    uint64_t one = 1;
    ssize_t n = write(event_fd, &one, sizeof(one));

    (void)n; /* a full counter is readable already */
}

static void on_signal(int signo)
{
    int saved = errno;

    (void)signo;
    if (seen) {
        _exit(EXIT_INTERRUPTED);
    }
    seen = 1;
    ctrl_c_raise();
    errno = saved;
}

static void on_pipe(int signo)
{
    (void)signo;
}

int ctrl_c_install(struct err *e)
{
    struct sigaction stop = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigaction quiet = {.sa_handler = on_pipe, .sa_flags = SA_RESTART};

    event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_fd < 0) {
        return err_sys(e, errno, "cannot create an eventfd");
    }
    sigemptyset(&stop.sa_mask);
    sigemptyset(&quiet.sa_mask);
    if (sigaction(SIGINT, &stop, NULL) < 0 || sigaction(SIGTERM, &stop, NULL) < 0 ||
        sigaction(SIGPIPE, &quiet, NULL) < 0) {
        return err_sys(e, errno, "cannot handle signals");
    }
    return 0;
}

int ctrl_c_fd(void)
{
    return event_fd;
}

bool ctrl_c_seen(void)
{
    return seen != 0;
}
