/* SPDX-License-Identifier: Apache-2.0 */
/* Network namespaces; see netns.h. */
#include "box/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

#define LOOPBACK_INDEX 1 /* the first interface of every network namespace */

static int loopback_up(struct err *e)
{
    AUTO_CLOSE int fd = -1;
    struct ifreq req = {.ifr_name = "lo"};

    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return err_sys(e, errno, "socket");
    }
    if (ioctl(fd, SIOCGIFFLAGS, &req) < 0) {
        return err_sys(e, errno, "read flags of lo");
    }
    req.ifr_flags |= IFF_UP | IFF_RUNNING;
    if (ioctl(fd, SIOCSIFFLAGS, &req) < 0) {
        return err_sys(e, errno, "bring lo up");
    }
    return 0;
}

int netns_new(struct netns *ret, struct err *e)
{
    AUTO_CLOSE int ns = -1;
    AUTO_CLOSE int route = -1;

    if (unshare(CLONE_NEWNET) < 0) {
        return err_sys(e, errno, "new network namespace");
    }
    if (loopback_up(e) < 0) {
        return -1;
    }
    ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    route = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (ns < 0 || route < 0) {
        return err_sys(e, errno, "hold network namespace");
    }
    ret->ns = take_fd(&ns);
    ret->route = take_fd(&route);
    return 0;
}

int netns_move_up(struct netns *net, int first, struct err *e)
{
    int *fds[] = {&net->ns, &net->route};

    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        int high = fcntl(*fds[i], F_DUPFD_CLOEXEC, first);
        if (high < 0) {
            return err_sys(e, errno, "move a descriptor");
        }
        fd_close(fds[i]);
        *fds[i] = high;
    }
    return 0;
}

void netns_release(struct netns *net)
{
    fd_close(&net->ns);
    fd_close(&net->route);
}

int netns_enter(const struct netns *net, struct err *e)
{
    if (setns(net->ns, CLONE_NEWNET) < 0) {
        return err_sys(e, errno, "enter network namespace");
    }
    return 0;
}

/* Finds the 64-bit counters in an RTM_NEWSTATS answer. */
static const struct rtnl_link_stats64 *find_stats(const struct nlmsghdr *h, size_t n)
{
    const size_t head = NLMSG_ALIGN(sizeof(struct if_stats_msg));

    if (!NLMSG_OK(h, n) || h->nlmsg_type != RTM_NEWSTATS || h->nlmsg_len < NLMSG_LENGTH(head)) {
        return NULL;
    }
    int left = (int)(h->nlmsg_len - NLMSG_LENGTH(head));
    const struct rtattr *a = (const void *)((const char *)NLMSG_DATA(h) + head);
    for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        if (a->rta_type == IFLA_STATS_LINK_64 &&
            RTA_PAYLOAD(a) >= sizeof(struct rtnl_link_stats64)) {
            return RTA_DATA(a);
        }
    }
    return NULL;
}

/*
 * Sockets can outlive their box in a message that was not received yet, and keep their ports
 * without a single packet. Only our own may exist.
 */
static bool has_no_sockets(const struct netns *net)
{
    char text[1024] = "";
    struct err ignored;

    return netns_enter(net, &ignored) == 0 &&
           fd_read_file(AT_FDCWD, "/proc/self/net/sockstat", text, sizeof(text)) >= 0 &&
           str_starts(text, "sockets: used 1\n");
}

static bool has_no_traffic(const struct netns *net)
{
    struct {
        struct nlmsghdr head;
        struct if_stats_msg stats;
    } ask = {
        .head = {.nlmsg_len = sizeof(ask),
                 .nlmsg_type = RTM_GETSTATS,
                 .nlmsg_flags = NLM_F_REQUEST},
        .stats = {.family = AF_UNSPEC,
                  .ifindex = LOOPBACK_INDEX,
                  .filter_mask = IFLA_STATS_FILTER_BIT(IFLA_STATS_LINK_64)},
    };
    union {
        char bytes[1024];
        struct nlmsghdr head;
    } answer;
    struct rtnl_link_stats64 stats;

    if (send(net->route, &ask, sizeof(ask), 0) != (ssize_t)sizeof(ask)) {
        return false;
    }
    ssize_t n = recv(net->route, &answer, sizeof(answer), 0);
    const struct rtnl_link_stats64 *found = n > 0 ? find_stats(&answer.head, (size_t)n) : NULL;
    if (found == NULL) {
        return false;
    }
    memcpy(&stats, found, sizeof(stats));
    return stats.tx_packets == 0 && stats.rx_packets == 0 && stats.tx_dropped == 0;
}

bool netns_is_untouched(const struct netns *net)
{
    return has_no_traffic(net) && has_no_sockets(net);
}
