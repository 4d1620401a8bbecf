/* SPDX-License-Identifier: Apache-2.0 */
/*
 * husk agents up: serves the agents and MCP servers of a project. Finds them, seals the plan, and
 * runs the server as `husk up` does; the supervisor starts the workers.
 */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/common/agents_find.h"
#include "cli/common/agents_place.h"
#include "cli/common/agents_ray.h"
#include "cli/common/commands.h"
#include "cli/common/dotenv.h"
#include "cli/common/serving.h"
#include "cli/common/term.h"
#include "core/paths.h"

#define DEFAULT_HOST "127.0.0.1" /* there is no authentication */
#define DEFAULT_PORT "8000"

struct agents_options {
    struct config_options settings;
    char *host;
    char *port;
    char *agents;
    char *servers;
    char *file;
    char *python;
    int detach;
};

#define FIELD(name) offsetof(struct agents_options, name)
#define CONFIG_OPTIONS_AT FIELD(settings)

static const struct option_row rows[] = {
    {OPTION_GROUP, 0, "Options", NULL, 0, 0, NULL},
    {OPTION_TEXT, 'p', "port", "PORT", FIELD(port), 0,
     "listen on this port (default " DEFAULT_PORT ")"},
    {OPTION_TEXT, 0, "host", "ADDRESS", FIELD(host), 0,
     "listen on this address (default " DEFAULT_HOST
     "); there is no authentication, so one that is "
     "not loopback also needs --insecure-listen"},
    {OPTION_TEXT, 0, "agents", "NAMES", FIELD(agents), 0,
     "serve only these agents, a,b, and the --servers"},
    {OPTION_TEXT, 0, "servers", "NAMES", FIELD(servers), 0,
     "serve only these MCP servers, a,b, and the --agents"},
    {OPTION_TEXT, 0, "file", "SCRIPT", FIELD(file), 0,
     "instead of a project, serve what this script passes to serve()"},
    {OPTION_TEXT, 0, "python", "PATH", FIELD(python), 0,
     "the interpreter (default: that of $VIRTUAL_ENV, else of .venv in the project, else python3)"},
    {OPTION_FLAG, 'd', "detach", NULL, FIELD(detach), 1, SERVING_TEXT_DETACH},
    {OPTION_HELP, 'h', "help", NULL, 0, 0, "show the help text"},
#include "cli/common/config_options.def"
};

const struct option_table agents_table = {
    .usage = UP_USAGE,
    .about =
        "Serves the agents (agents/*/agent.py) and MCP servers (mcp_servers/*/server.py) of the "
        "project in the current or the named directory: POST /agents/NAME/. Reads its .env "
        "first. A file that cannot be imported is reported; the others are served. The data "
        "directory is PROJECT/.husk unless --data is given. With HUSK_ENGINE=ray, Ray Serve serves "
        "instead of huskd. Ctrl-C stops it.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .examples = PROGRAM " " UP_COMMAND "\n" PROGRAM " " UP_COMMAND " demo --port 9000\n" PROGRAM
                        " " UP_COMMAND " --agents hello,helper --servers weather",
    .anywhere = true,
};

/* The state of one call of the command. */
struct agents_run {
    struct agents_options o;
    bool only_servers;
    char folder[PATH_MAX]; /* of the project; absolute */
    char file[PATH_MAX];   /* --file as an absolute path */
    char listen[128];
    char data[PATH_MAX];
    char socket[PATH_MAX];
    char base[160]; /* "http://localhost:8000" */
    struct config config;
    struct python python;
    struct agents_plan plan;
    int sealed; /* the plan for the supervisor; -1: not yet */
};

/* ---- where ---- */

static bool is_folder(const char *parent, const char *name)
{
    char path[PATH_MAX];
    struct stat st;

    return str_format(path, sizeof(path), "%s/%s", parent, name) == 0 && stat(path, &st) == 0 &&
           S_ISDIR(st.st_mode);
}

static int find_project(struct agents_run *a, const char *given, struct err *e)
{
    if (realpath(given != NULL ? given : ".", a->folder) == NULL) {
        return err_sys(e, errno, "cannot open %s", given != NULL ? given : "the current folder");
    }
    if (a->o.file != NULL) {
        return realpath(a->o.file, a->file) != NULL
                   ? 0
                   : err_sys(e, errno, "cannot open %s", a->o.file);
    }
    bool has_servers = is_folder(a->folder, "mcp_servers");
    if (a->only_servers && !has_servers) {
        return err_set(e, ERR_NOT_FOUND,
                       "there is no mcp_servers/ folder in %s: '" PROGRAM
                       " create-mcp' creates one",
                       a->folder);
    }
    if (!has_servers && !is_folder(a->folder, "agents")) {
        return err_set(e, ERR_NOT_FOUND,
                       "there is no agents/ folder in %s: '" PROGRAM " init' creates a project",
                       a->folder);
    }
    return 0;
}

static int load_dotenv(const struct agents_run *a, struct err *e)
{
    char path[PATH_MAX];

    if (str_format(path, sizeof(path), "%s/.env", a->folder) < 0) {
        return err_set(e, ERR_INVALID, "the path of the project is too long: %s", a->folder);
    }
    return dotenv_load(path, e);
}

/* Workers and tools use the programs beside this one, unless HUSK_BIN is set. */
static int name_programs(struct err *e)
{
    char path[PATH_MAX];

    if (paths_daemon(path, sizeof(path), e) < 0) {
        return -1;
    }
    *strrchr(path, '/') = '\0';
    return setenv("HUSK_BIN", path, 0) < 0 ? err_sys(e, errno, "cannot set HUSK_BIN") : 0;
}

static int choose_data(struct agents_run *a, struct err *e)
{
    const struct option_list *given = &a->o.settings.values[CONFIG_data];
    const char *script = a->o.file != NULL ? a->file : NULL;

    return agents_place_data(given->n > 0 ? given->items[given->n - 1] : NULL, a->folder, script,
                             a->data, e);
}

static int choose_listen(struct agents_run *a, struct err *e)
{
    const char *host = a->o.host != NULL ? a->o.host : DEFAULT_HOST;
    const char *port = a->o.port != NULL ? a->o.port : DEFAULT_PORT;
    bool bare_ip6 = strchr(host, ':') != NULL && host[0] != '[';
    struct sockaddr_storage address;
    socklen_t len;
    uint64_t n;

    if (parse_u64(port, &n) < 0 || n > UINT16_MAX) {
        return err_set(e, ERR_INVALID, "--port '%s' is not a port from 0 to 65535", port);
    }
    if (str_format(a->listen, sizeof(a->listen), "%s%s%s:%s", bare_ip6 ? "[" : "", host,
                   bare_ip6 ? "]" : "", port) < 0 ||
        config_address(a->listen, &address, &len, e) < 0) {
        return err_set(e, ERR_INVALID, "--host '%s' is not an address such as 127.0.0.1 or ::1",
                       host);
    }
    return 0;
}

/* ---- settings ---- */

static int set(struct agents_run *a, enum config_key key, char *value, struct err *e)
{
    return option_list_add(&a->o.settings.values[key], value, 1, e);
}

/* Set like flags, which override variables and files: those are for the server of `husk up`. */
static int settle(struct agents_run *a, struct err *e)
{
    static char none[] = "";
    const struct option_list *values = a->o.settings.values;

    if (values[CONFIG_agents_plan].n > 0) {
        return err_set(e, ERR_INVALID,
                       "--agents-plan is a setting of husk up only: this command creates the plan");
    }
    if (values[CONFIG_listen].n > 0 && (a->o.host != NULL || a->o.port != NULL)) {
        return err_set(e, ERR_INVALID, "use either --listen or --host and --port, not both");
    }
    if (values[CONFIG_listen].n == 0 &&
        (choose_listen(a, e) < 0 || set(a, CONFIG_listen, a->listen, e) < 0)) {
        return -1;
    }
    if (choose_data(a, e) < 0 ||
        (values[CONFIG_socket].n == 0 && (agents_place_socket(a->data, a->socket, e) < 0 ||
                                          set(a, CONFIG_socket, a->socket, e) < 0)) ||
        (values[CONFIG_data].n == 0 && set(a, CONFIG_data, a->data, e) < 0)) {
        return -1;
    }
    return set(a, CONFIG_agents_plan, none, e); /* the supervisor gets the plan as a descriptor */
}

/* The base of URLs: a wildcard address is replaced by localhost. */
static void choose_base(struct agents_run *a)
{
    const char *address = a->config.listen.n > 0 ? a->config.listen.items[0] : "localhost";
    const char *colon = strrchr(address, ':');

    if (str_starts(address, "0.0.0.0:") || str_starts(address, "[::]:")) {
        (void)str_format(a->base, sizeof(a->base), "http://localhost%s", colon);
    } else {
        (void)str_format(a->base, sizeof(a->base), "http://%s", address);
    }
}

/* ---- checks before the slow part ---- */

static int check_port(const char *text, struct err *e)
{
    AUTO_CLOSE int fd = listeners_bind_tcp(text, e);

    if (fd < 0 && e->sys_errno == EADDRINUSE) {
        return err_set(e, ERR_EXISTS, "%s is used by another program: choose another --port", text);
    }
    return fd < 0 ? -1 : 0;
}

static int check_room(const struct agents_run *a, struct err *e)
{
    struct err ignored;
    pid_t holder;

    AUTO_CLOSE int place = place_look(&a->config, &ignored);
    if (place >= 0 && place_holder(place, &a->config, &holder, &ignored) == 0) {
        return err_set(e, ERR_EXISTS,
                       "%s is already served (process %d): `husk down --data %s` stops that "
                       "server, or choose another "
                       "--data",
                       a->folder, (int)holder, a->config.data);
    }
    for (size_t i = 0; i < a->config.listen.n; i++) {
        if (check_port(a->config.listen.items[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- serving ---- */

static void greet(const struct serving *s)
{
    const struct agents_run *a = s->user;

    bool tcp = a->config.listen.n > 0;

    printf("\nServing on %s%s%s\n\n", tcp ? a->base : "", tcp ? " and " : "", a->config.socket);
    agents_show_calls(&a->plan, a->base, tcp ? NULL : a->config.socket);
    fflush(stdout);
}

static int prepare(struct agents_run *a, const char *project, struct err *e)
{
    if (find_project(a, project, e) < 0 || load_dotenv(a, e) < 0 || name_programs(e) < 0) {
        return -1;
    }
    return agents_ray_is_asked() ? 0 : settle(a, e);
}

static struct agents_query query_of(const struct agents_run *a)
{
    return (struct agents_query){.python = &a->python,
                                 .folder = a->folder,
                                 .agents = a->o.agents,
                                 .servers = a->o.servers,
                                 .file = a->o.file != NULL ? a->file : NULL,
                                 .only_servers = a->only_servers};
}

/* Returns only on failure. */
static int serve_on_ray(struct agents_run *a, struct err *e)
{
    struct agents_query q = query_of(a);

    if (agents_ray_check(&a->o.settings, a->o.detach != 0, e) < 0 ||
        python_find(a->o.python, a->folder, &a->python, e) < 0 ||
        python_find_sdk(&a->python, e) < 0) {
        return -1;
    }
    return agents_ray_serve(&q, a->o.host, a->o.port, e);
}

static int find(struct agents_run *a, struct err *e)
{
    struct agents_query q = query_of(a);

    choose_base(a);
    if (check_room(a, e) < 0 || python_find(a->o.python, a->folder, &a->python, e) < 0 ||
        python_find_sdk(&a->python, e) < 0 || agents_find(&q, &a->plan, e) < 0) {
        return -1;
    }
    agents_show(&a->plan, a->base);
    a->sealed = agents_plan_seal(&a->plan, e);
    return a->sealed < 0 ? -1 : 0;
}

static int serve(struct agents_run *a, const char *project)
{
    struct err e = {0};

    if (prepare(a, project, &e) < 0 || (agents_ray_is_asked() && serve_on_ray(a, &e) < 0)) {
        term_say(PROGRAM, "%s", e.msg);
        return EXIT_HUSK;
    }
    if (serving_load(&a->o.settings, &a->config) < 0) {
        return EXIT_HUSK; /* the reason is printed */
    }
    if (find(a, &e) < 0) {
        term_say(PROGRAM, "%s", e.msg);
        return EXIT_HUSK;
    }
    struct serving s = {.config = &a->config,
                        .settings = &a->o.settings,
                        .plan = a->sealed,
                        .greet = greet,
                        .user = a};
    return serving_run(&s, a->o.detach != 0);
}

int agents_up(const char *command, bool only_servers, int argc, char **argv)
{
    struct agents_run *a = calloc(1, sizeof(*a));
    struct option_rest rest;
    struct err e = {0};

    if (a == NULL) {
        term_say(PROGRAM, "out of memory");
        return EXIT_HUSK;
    }
    a->only_servers = only_servers;
    a->sealed = -1;
    int code = command_parse(command, &agents_table, argc, argv, &a->o, &rest);
    if (code == COMMAND_GOES_ON && rest.n > 1) {
        err_set(&e, ERR_INVALID, "%s takes one project; '%s' is one too many", command,
                rest.args[1]);
        code = usage_error(command, &e);
    } else if (code == COMMAND_GOES_ON) {
        code = serve(a, rest.n > 0 ? rest.args[0] : NULL);
    }
    config_options_release(&a->o.settings);
    config_release(&a->config);
    agents_plan_release(&a->plan);
    fd_close(&a->sealed);
    free(a);
    return code;
}

int agents_verb(const char *command, const char *up, bool only_servers, int argc, char **argv)
{
    struct err e = {0};

    if (argc > 1 && str_eq(argv[1], "up")) {
        return agents_up(up, only_servers, argc - 1, argv + 1);
    }
    if (argc > 1 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h"))) {
        options_print_help(&agents_table, stdout);
        return 0;
    }
    err_set(&e, ERR_INVALID, "%s needs the word up: " PROGRAM " %s up", command, command);
    return usage_error(command, &e);
}

int cmd_agents(int argc, char **argv)
{
    return agents_verb("agents", UP_COMMAND, false, argc, argv);
}
