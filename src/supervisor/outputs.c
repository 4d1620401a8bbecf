/* SPDX-License-Identifier: Apache-2.0 */
/* See outputs.h. */
#include "supervisor/outputs.h"

#include <unistd.h>

#include "base/log.h"

int outputs_open(struct outputs *o, const struct config *c, int folder, struct err *e)
{
    o->sink = (struct output_sink){.folder = folder, .config = c};
    return output_open(&o->all[OUTPUT_DAEMON], "huskd", e) < 0 ||
                   output_open(&o->all[OUTPUT_LAUNCHER], "husk-launcher", e) < 0 ||
                   ((folder >= 0 || log_is_json()) &&
                    output_open(&o->all[OUTPUT_WORKERS], "workers", e) < 0)
               ? -1
               : 0;
}

void outputs_close(struct outputs *o)
{
    for (size_t i = 0; i < OUTPUT_SOURCES; i++) {
        output_finish(&o->all[i], &o->sink);
        output_close(&o->all[i]);
    }
}

void outputs_poll(const struct outputs *o, struct pollfd ret[OUTPUTS_POLLED])
{
    bool takes = output_sink_takes();

    for (size_t i = 0; i < OUTPUT_SOURCES; i++) {
        bool is_open = o->all[i].name != NULL;

        ret[i] = (struct pollfd){.fd = takes && is_open ? o->all[i].ours : -1, .events = POLLIN};
    }
    ret[OUTPUT_SOURCES] = (struct pollfd){.fd = takes ? -1 : STDERR_FILENO, .events = POLLOUT};
}

void outputs_pump(struct outputs *o, const struct pollfd polled[OUTPUTS_POLLED])
{
    for (size_t i = 0; i < OUTPUT_SOURCES; i++) {
        if (polled[i].revents != 0 || polled[OUTPUT_SOURCES].revents != 0) {
            (void)output_pump(&o->all[i], &o->sink);
        }
    }
}

void outputs_finish(struct outputs *o, enum output_source source)
{
    output_finish(&o->all[source], &o->sink);
}

int outputs_end_of(const struct outputs *o, enum output_source source)
{
    return o->all[source].name != NULL ? o->all[source].theirs : -1;
}
