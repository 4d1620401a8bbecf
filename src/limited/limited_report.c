/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the lines of `husk limited --report-fd`, and reads them for the supervisor; see limited.h.
 */
#include <inttypes.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "limited/limited.h"

int limited_report_start(int fd, pid_t pid, bool weak)
{
    char line[LIMITED_REPORT_MAX];

    int r = str_format(line, sizeof(line), "{\"event\":\"started\",\"pid\":%d,\"limits\":\"%s\"}\n",
                       (int)pid, weak ? "rlimit" : "cgroup");
    return r < 0 ? r : fd_write_all(fd, line, strlen(line));
}

int limited_report_end(int fd, const struct limited_end *end)
{
    char line[LIMITED_REPORT_MAX];

    int r = str_format(line, sizeof(line),
                       "{\"event\":\"ended\",\"exit_code\":%d,\"signal\":%d,\"oom_kills\":%" PRIu64
                       ",\"peak_memory_bytes\":%" PRIu64 ",\"cpu_ms\":%" PRIu64 "}\n",
                       end->exit_code, end->signal, end->oom_kills, end->peak_memory, end->cpu_ms);
    return r < 0 ? r : fd_write_all(fd, line, strlen(line));
}

static bool number(const char *text, const char *key, uint64_t *ret)
{
    const char *at = strstr(text, key);

    if (at == NULL) {
        return false;
    }
    *ret = strtoull(at + strlen(key), NULL, 10);
    return true;
}

bool limited_report_read(const char *text, struct limited_end *ret)
{
    const char *line = strstr(text, "{\"event\":\"ended\"");
    uint64_t code;
    uint64_t signal;

    *ret = (struct limited_end){.exit_code = 0};
    if (line == NULL || strchr(line, '\n') == NULL || !number(line, "\"exit_code\":", &code) ||
        !number(line, "\"signal\":", &signal) || !number(line, "\"oom_kills\":", &ret->oom_kills) ||
        !number(line, "\"peak_memory_bytes\":", &ret->peak_memory) ||
        !number(line, "\"cpu_ms\":", &ret->cpu_ms)) {
        return false;
    }
    ret->exit_code = (int)code;
    ret->signal = (int)signal;
    return true;
}
