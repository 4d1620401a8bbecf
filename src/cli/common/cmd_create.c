/* SPDX-License-Identifier: Apache-2.0 */
/* husk create-agent, husk create-mcp: add to the project in the current folder. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "base/suggest.h"
#include "cli/common/analytics.h"
#include "cli/common/commands.h"
#include "cli/common/python.h"
#include "cli/common/scaffold.h"
#include "cli/common/term.h"

struct create_options {
    char *framework;
};

#define FIELD(name) offsetof(struct create_options, name)

static const struct option_row agent_rows[] = {
    {OPTION_GROUP, 0, "Options", NULL, 0, 0, NULL},
    {OPTION_TEXT, 'f', "framework", "NAME", FIELD(framework), 0,
     "python (default, needs no other package), langchain, langgraph, pydantic or agno"},
    {OPTION_HELP, 'h', "help", NULL, 0, 0, "show the help text"},
};

const struct option_table create_agent_table = {
    .usage = PROGRAM " create-agent NAME [--framework FRAMEWORK]",
    .about = "Adds agents/NAME/agent.py and a test of it to the project in the current directory. "
             "The new agent answers with an example model that needs no network.",
    .rows = agent_rows,
    .n_rows = ARRAY_LEN(agent_rows),
    .examples = PROGRAM " create-agent hello\n" PROGRAM " create-agent helper --framework pydantic",
    .anywhere = true,
};

static const struct option_row mcp_rows[] = {
    {OPTION_GROUP, 0, "Options", NULL, 0, 0, NULL},
    {OPTION_HELP, 'h', "help", NULL, 0, 0, "show the help text"},
};

const struct option_table create_mcp_table = {
    .usage = PROGRAM " create-mcp NAME",
    .about =
        "Adds mcp_servers/NAME/server.py, a server of the Model Context Protocol, and a test of "
        "it to the project in the current directory.",
    .rows = mcp_rows,
    .n_rows = ARRAY_LEN(mcp_rows),
    .examples = PROGRAM " create-mcp weather",
    .anywhere = true,
};

/* A kind of new files, and a package that they need. */
struct kind {
    const char *name;     /* value of --framework */
    const char *scaffold; /* folder of scaffold/ */
    const char *module;   /* the module that they import; NULL: none */
    const char *package;  /* the module's package for pip */
};

static const struct kind frameworks[] = {
    {"python", "agent-python", NULL, NULL},
    {"langchain", "agent-langchain", "langchain", "langchain"},
    {"langgraph", "agent-langgraph", "langgraph", "langgraph"},
    {"pydantic", "agent-pydantic", "pydantic_ai", "pydantic-ai-slim"},
    {"agno", "agent-agno", "agno", "agno"},
};

static const struct kind mcp = {"mcp", "mcp", "mcp", "mcp"};

static const struct kind *find_framework(const char *name, struct err *e)
{
    const char *names[ARRAY_LEN(frameworks)];

    for (size_t i = 0; i < ARRAY_LEN(frameworks); i++) {
        names[i] = frameworks[i].name;
        if (str_eq(names[i], name)) {
            return &frameworks[i];
        }
    }
    const char *near = suggest(name, names, ARRAY_LEN(names));
    err_set(e, ERR_INVALID,
            "--framework '%s' is not one of python, langchain, langgraph, pydantic, agno%s%s%s",
            name, near != NULL ? "; did you mean " : "", near != NULL ? near : "",
            near != NULL ? "?" : "");
    return NULL;
}

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int check_name(const char *name, const char *folder, struct err *e)
{
    char path[PATH_MAX];
    struct stat st;

    if (scaffold_is_keyword(name)) {
        return err_set(e, ERR_INVALID, "'%s' cannot be a name: it is a keyword of Python", name);
    }
    if (!scaffold_is_identifier(name) || str_starts(name, "__")) {
        return err_set(e, ERR_INVALID,
                       "'%s' cannot be a name: use a Python identifier that does not start with __",
                       name);
    }
    if (str_format(path, sizeof(path), "%s/%s", folder, name) < 0 || lstat(path, &st) == 0) {
        return err_set(e, ERR_EXISTS, "%s/%s exists already", folder, name);
    }
    if (str_format(path, sizeof(path), "tests/test_%s%s.py", str_eq(folder, "agents") ? "" : "mcp_",
                   name) < 0 ||
        lstat(path, &st) == 0) {
        return err_set(e, ERR_EXISTS, "%s exists already", path);
    }
    return 0;
}

/* Reports early that the interpreter lacks a package; the files are created anyway. */
static void hint(const struct kind *k)
{
    struct python python;
    uint32_t missing = 0;
    struct err e = {0};

    if (k->module == NULL) {
        return;
    }
    if (python_find(NULL, ".", &python, &e) < 0 ||
        python_missing(&python, &k->module, 1, &missing, &e) < 0) {
        printf("\nIt needs the Python package %s. (%s)\n", k->package, e.msg);
    } else if (missing != 0 && (getenv("VIRTUAL_ENV") != NULL || is_folder(".venv"))) {
        printf("\n%s has no package %s. To get it:\n\n  %s -m pip install %s\n", python.path,
               k->package, python.path, k->package);
    } else if (missing != 0) {
        printf("\n%s has no package %s. One way to get it, which '" PROGRAM " " UP_COMMAND
               "' then uses:\n\n"
               "  python3 -m venv .venv && .venv/bin/pip install %s\n",
               python.path, k->package, k->package);
    }
}

static int create(const struct kind *k, const char *name, struct err *e)
{
    const char *folder = k == &mcp ? "mcp_servers" : "agents";
    char class_name[SCAFFOLD_CLASS_MAX];

    if (!is_folder("agents") && (k != &mcp || !is_folder(folder))) {
        return err_set(e, ERR_NOT_FOUND,
                       "there is no %s/ folder here: go to a project, or create one with '" PROGRAM
                       " init'",
                       folder);
    }
    if (check_name(name, folder, e) < 0) {
        return -1;
    }
    scaffold_class_name(name, class_name);
    struct scaffold s = {.kind = k->scaffold, .name = name, .class_name = class_name};
    return scaffold_copy(&s, ".", e);
}

static int run(const struct option_table *table, bool is_mcp, int argc, char **argv)
{
    struct create_options o = {0};
    struct option_rest rest;
    struct err e = {0};
    const struct kind *k = &mcp;

    int code = command_parse(argv[0], table, argc, argv, &o, &rest);
    if (code != COMMAND_GOES_ON) {
        return code;
    }
    if (rest.n != 1) {
        err_set(&e, ERR_INVALID, "%s takes one name", argv[0]);
        return usage_error(argv[0], &e);
    }
    if (!is_mcp) {
        k = find_framework(o.framework != NULL ? o.framework : "python", &e);
    }
    if (k == NULL) {
        return usage_error(argv[0], &e);
    }
    if (create(k, rest.args[0], &e) < 0) {
        term_say(PROGRAM, "%s", e.msg);
        return EXIT_HUSK;
    }
    analytics_count(NULL, k->name);
    hint(k);
    printf("\n'" PROGRAM " " UP_COMMAND "' serves it.\n");
    return 0;
}

int cmd_create_agent(int argc, char **argv)
{
    return run(&create_agent_table, false, argc, argv);
}

int cmd_create_mcp(int argc, char **argv)
{
    return run(&create_mcp_table, true, argc, argv);
}
