/* SPDX-License-Identifier: Apache-2.0 */
/* Network namespaces that are used again: only those in which no box left anything. */
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/netns.h"
#include "tap.h"

/* Entered. The process ends with the test. */
static struct netns fresh(void)
{
    struct netns net;
    struct err e = {0};

    if (geteuid() != 0) {
        SKIP("network namespaces need root");
    }
    CHECK_INT(netns_new(&net, &e), 0);
    return net;
}

TEST(a_new_network_is_untouched)
{
    struct netns net = fresh();

    CHECK(netns_is_untouched(&net));
    netns_release(&net);
}

TEST(a_network_with_a_socket_in_it_is_not_untouched)
{
    struct netns net = fresh();
    AUTO_CLOSE int left = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(left >= 0);
    CHECK(!netns_is_untouched(&net));
    fd_close(&left);
    CHECK(netns_is_untouched(&net));
    netns_release(&net);
}

TEST(a_network_that_a_packet_went_through_is_not_untouched)
{
    struct netns net = fresh();
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    AUTO_CLOSE int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    CHECK_INT(sendto(sock, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)), 1);
    fd_close(&sock);
    CHECK(!netns_is_untouched(&net));
    netns_release(&net);
}
