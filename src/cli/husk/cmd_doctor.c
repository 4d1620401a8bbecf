/* SPDX-License-Identifier: Apache-2.0 */
/*
 * husk doctor: shows the layers of isolation of this machine, and how to get missing ones. Changes
 * nothing.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/common/commands.h"
#include "cli/common/term.h"

#define LAYERS_MAX 48
#define NAME_WIDTH 18

struct doctor_options {
    int json;
};

struct host {
    struct utsname kernel;
    bool cgroup_v1;
    bool cgroup_v2;
    char controllers[256]; /* of the unified hierarchy */
};

static const struct option_row rows[] = {
    {OPTION_GROUP, 0, "Options", NULL, 0, 0, NULL},
    {OPTION_FLAG, 0, "json", NULL, offsetof(struct doctor_options, json), 1, "print a JSON object"},
    {OPTION_HELP, 'h', "help", NULL, 0, 0, "show the help text"},
};

const struct option_table doctor_table = {
    .usage = "husk doctor [--json]",
    .about = "Shows every layer of isolation: whether this machine has it, what it protects from "
             "and how to get it. Exits with 1 when a layer is missing that full isolation needs.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .anywhere = true,
};

static void read_line(const char *path, char *dst, size_t size)
{
    FILE *f = fopen(path, "re");

    dst[0] = '\0';
    if (f == NULL) {
        return;
    }
    if (fgets(dst, (int)size, f) == NULL) {
        dst[0] = '\0';
    }
    dst[strcspn(dst, "\n")] = '\0';
    fclose(f);
}

static void host_read(struct host *h)
{
    char line[4096];
    FILE *f = fopen("/proc/self/mounts", "re");

    memset(h, 0, sizeof(*h));
    (void)uname(&h->kernel); /* cannot fail with a valid buffer */
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        char path[512];
        char type[64];

        if (sscanf(line, "%*s %511s %63s", path, type) != 2) {
            continue;
        }
        h->cgroup_v1 |= str_eq(type, "cgroup");
        if (str_eq(type, "cgroup2")) {
            char file[600];

            h->cgroup_v2 = true;
            if (str_format(file, sizeof(file), "%s/cgroup.controllers", path) == 0) {
                read_line(file, h->controllers, sizeof(h->controllers));
            }
        }
    }
    if (f != NULL) {
        fclose(f);
    }
}

static const char *cgroup_mode(const struct host *h)
{
    if (h->cgroup_v1) {
        return h->cgroup_v2 ? "hybrid" : "v1";
    }
    return h->cgroup_v2 ? "v2" : "none";
}

static bool is_complete(const struct husk_layer *layers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (layers[i].mandatory && !layers[i].present) {
            return false;
        }
    }
    return true;
}

static json_t *layer_json(const struct husk_layer *l)
{
    return json_pack("{s:s, s:b, s:b, s:s, s:s, s:s}", "name", l->name, "present", (int)l->present,
                     "mandatory", (int)l->mandatory, "fact", l->fact, "why", l->why, "fix", l->fix);
}

static int print_as_json(const struct host *h, const struct husk_layer *layers, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        if (json_array_append_new(list, layer_json(&layers[i])) < 0) {
            json_decref(list);
            return print_json(NULL);
        }
    }
    return print_json(json_pack("{s:s, s:{s:s, s:s}, s:{s:s, s:s}, s:b, s:o}", "version",
                                husk_version(), "kernel", "release", h->kernel.release, "machine",
                                h->kernel.machine, "cgroup", "mode", cgroup_mode(h),
                                "unified_controllers", h->controllers, "complete",
                                (int)is_complete(layers, n), "layers", list));
}

static void print_layer(const struct husk_layer *l, bool color)
{
    const char *mark = l->present ? "yes" : l->mandatory ? "NO" : "no";
    const char *paint = l->present ? "\033[32m" : l->mandatory ? "\033[31m" : "\033[33m";

    printf("  %s%-3s%s  %-*s  %s\n", color ? paint : "", mark, color ? "\033[0m" : "", NAME_WIDTH,
           l->name, l->fact);
    printf("       %-*s  %s\n", NAME_WIDTH, "", l->why);
    if (!l->present) {
        printf("       %-*s  to get it: %s\n", NAME_WIDTH, "", l->fix);
    }
}

static bool has_layer(const struct husk_layer *layers, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(layers[i].name, name)) {
            return layers[i].present;
        }
    }
    return false;
}

static void print_table(const struct host *h, const struct husk_layer *layers, size_t n)
{
    bool color = term_has_color(STDOUT_FILENO);
    size_t missing = 0;

    printf("husk %s on Linux %s (%s), %s\n", husk_version(), h->kernel.release, h->kernel.machine,
           geteuid() == 0 ? "as root" : "as an ordinary user");
    printf("cgroup: %s, controllers of the unified tree: %s\n\n", cgroup_mode(h),
           h->controllers[0] != '\0' ? h->controllers : "none");
    for (size_t i = 0; i < n; i++) {
        print_layer(&layers[i], color);
        missing += layers[i].mandatory && !layers[i].present;
    }
    if (missing == 0) {
        puts("\nAll layers that full isolation needs are here.");
    } else if (!has_layer(layers, n, "namespaces")) {
        puts(
            "\nWithout namespaces no program can run in a sandbox, whatever --min-isolation says.");
    } else {
        printf("\n%zu layer%s that full isolation needs %s missing: husk refuses to run unless "
               "--min-isolation userns is given.\n",
               missing, missing == 1 ? "" : "s", missing == 1 ? "is" : "are");
    }
}

int cmd_doctor(int argc, char **argv)
{
    struct husk_layer layers[LAYERS_MAX] = {0};
    struct doctor_options o = {0};
    struct host host;

    int code = command_parse("doctor", &doctor_table, argc, argv, &o, NULL);
    if (code != COMMAND_GOES_ON) {
        return code;
    }
    size_t n = husk_doctor(layers, LAYERS_MAX);
    if (n > LAYERS_MAX) {
        term_say(PROGRAM, "doctor: %zu layers, room for %d", n, LAYERS_MAX);
        return EXIT_HUSK;
    }
    host_read(&host);
    if (!o.json) {
        print_table(&host, layers, n);
    } else if (print_as_json(&host, layers, n) != 0) {
        return EXIT_HUSK;
    }
    return is_complete(layers, n) ? 0 : EXIT_INCOMPLETE;
}
