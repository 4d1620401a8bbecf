/* SPDX-License-Identifier: Apache-2.0 */
/* From the command line of `husk run` to code, language and spec; see run_request.h. */
#include "cli/husk/run_request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/str.h"
#include "base/suggest.h"
#include "cli/common/commands.h"
#include "cli/common/hostfile.h"
#include "core/core.h"

static const struct {
    const char *word; /* value of --lang */
    const char *extension;
    const char *template_name;
    enum husk_language language;
} languages[] = {
    {"python", ".py", "python", HUSK_PYTHON}, {"py", NULL, NULL, HUSK_PYTHON},
    {"shell", ".sh", "shell", HUSK_SHELL},    {"sh", NULL, NULL, HUSK_SHELL},
    {"bash", NULL, NULL, HUSK_SHELL},         {"javascript", ".js", "node", HUSK_JAVASCRIPT},
    {"js", NULL, NULL, HUSK_JAVASCRIPT},      {"node", NULL, NULL, HUSK_JAVASCRIPT},
};

static int language_by_word(const char *word, enum husk_language *ret, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(languages); i++) {
        if (str_eq(languages[i].word, word)) {
            *ret = languages[i].language;
            return 0;
        }
    }
    return err_set(e, ERR_INVALID, "--lang '%s' is not known: use python, shell or javascript",
                   word);
}

static bool language_by_extension(const char *path, enum husk_language *ret)
{
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot != NULL && i < ARRAY_LEN(languages); i++) {
        if (languages[i].extension != NULL && str_eq(languages[i].extension, dot)) {
            *ret = languages[i].language;
            return true;
        }
    }
    return false;
}

/* The template given by --template, else the language's own. */
static const char *template_of(const struct run_request *r)
{
    if (r->opt.template_name != NULL) {
        return r->opt.template_name;
    }
    for (size_t i = 0; i < ARRAY_LEN(languages); i++) {
        if (languages[i].language == r->language && languages[i].template_name != NULL) {
            return languages[i].template_name;
        }
    }
    return "python";
}

static bool is_file(const char *text)
{
    struct stat st;

    return stat(text, &st) == 0 && !S_ISDIR(st.st_mode);
}

/* Running "scirpt.py" as code would be a puzzling NameError. */
static bool looks_like_script(const char *text)
{
    enum husk_language ignored;

    return text[strcspn(text, " \t\n()'\"=;")] == '\0' && language_by_extension(text, &ignored);
}

static int read_code(struct run_request *r, const char *what, struct err *e)
{
    r->code = BUF_INIT(CODE_MAX);
    if (str_eq(what, "-")) {
        r->code_from_stdin = true;
        return hostfile_read_fd(STDIN_FILENO, "code on standard input", &r->code, e);
    }
    if (is_file(what)) {
        r->name = what;
        return hostfile_read_script(what, &r->code, e);
    }
    if (looks_like_script(what)) {
        return err_set(e, ERR_NOT_FOUND,
                       "there is no file '%s' (to run it as code, pipe it to 'husk run -')", what);
    }
    int rc = buf_add_str(&r->code, what);
    if (rc == -EMSGSIZE) {
        return err_set(e, ERR_INVALID, "code is larger than 1 MiB");
    }
    return rc < 0 ? err_sys(e, -rc, "cannot keep the code") : 0;
}

static int find_language(struct run_request *r, struct err *e)
{
    bool from_file = r->name != NULL;

    r->language = HUSK_PYTHON;
    r->has_language = true;
    if (r->opt.lang != NULL) {
        return language_by_word(r->opt.lang, &r->language, e);
    }
    if (from_file && language_by_extension(r->name, &r->language)) {
        return 0;
    }
    if (r->opt.template_name != NULL) {
        r->has_language = false; /* use the template's language */
        return 0;
    }
    if (from_file) {
        return err_set(e, ERR_INVALID,
                       "'%s' does not end in .py, .sh or .js: name the language with --lang",
                       r->name);
    }
    return 0;
}

/* The engine's ranges, checked before an engine is started. */
static int check_limits(const struct husk_limits *given, struct err *e)
{
    struct limits l = engine_limits_import(given);

    if (given->memory_bytes == 0 && given->disk_bytes != 0) {
        /* Only the engine knows whether the template has more memory than the default. */
        uint64_t fitting = MAX(limits_default().memory_bytes, limits_memory_for(given->disk_bytes));
        l.memory_bytes = MIN(fitting, LIMITS_MEMORY_MAX);
    }
    limits_fill(&l);
    return limits_check(&l, e);
}

static int check_options(struct run_request *r, struct err *e)
{
    if (option_isolation(r->opt.min_isolation, &r->min_isolation, e) < 0) {
        return -1;
    }
    if (r->opt.template_name != NULL && !str_is_name(r->opt.template_name)) {
        return err_set(e, ERR_INVALID,
                       "--template '%s' is not a name of lower-case letters, digits, . _ -",
                       r->opt.template_name);
    }
    return check_limits(&r->opt.limits, e);
}

int run_request_parse(struct run_request *r, int argc, char **argv, struct err *e)
{
    struct option_rest rest;

    int parsed = options_parse(&run_table, argc, argv, &r->opt, &rest, e);
    if (parsed != 0) {
        return parsed;
    }
    if (rest.n == 0) {
        return err_set(e, ERR_INVALID,
                       "nothing to run: give code, a script, or '-' for standard input");
    }
    r->args = (const char *const *)rest.args + 1;
    if (check_options(r, e) < 0 || run_request_attach(r, e) < 0 ||
        read_code(r, rest.args[0], e) < 0) {
        return -1;
    }
    return find_language(r, e);
}

int run_request_check_template(struct run_request *r, struct husk_engine *engine, struct err *e)
{
    AUTO_FREE struct husk_template_info *list = NULL;
    AUTO_FREE const char **names = NULL;
    struct husk_error why;
    size_t n = 0;

    if (husk_template_list(NULL, &list, &n, &why) < 0) {
        return err_set(e, ERR_SYSTEM, "%s", why.message);
    }
    names = calloc(n + 1, sizeof(*names));
    if (names == NULL) {
        return err_sys(e, ENOMEM, "cannot list the templates");
    }
    for (size_t i = 0; i < n; i++) {
        names[i] = list[i].name;
        if (!str_eq(list[i].name, r->opt.template_name)) {
            continue;
        }
        if (r->has_language && r->language != list[i].language) {
            return err_set(e, ERR_INVALID, "template %s runs %s, but the code is %s", list[i].name,
                           template_language_name(list[i].language),
                           template_language_name(r->language));
        }
        r->language = list[i].language;
        return 0;
    }
    const char *near = suggest(r->opt.template_name, names, n);
    if (near != NULL) {
        return err_set(e, ERR_NOT_FOUND, "there is no template '%s'; did you mean '%s'?",
                       r->opt.template_name, near);
    }
    return err_set(e, ERR_NOT_FOUND, "there is no template '%s'; 'husk template list' shows all",
                   r->opt.template_name);
}

void run_request_spec(const struct run_request *r, struct husk_spec *spec)
{
    bool wants_value =
        r->opt.value == VALUE_ON || (r->opt.value == VALUE_DEFAULT && r->name == NULL);

    *spec = (struct husk_spec){
        .template_name = template_of(r),
        .kind = wants_value && r->language != HUSK_SHELL ? HUSK_CELL : HUSK_SCRIPT,
        .code = r->code.data != NULL ? r->code.data : "",
        .code_len = r->code.len,
        .name = r->name,
        .args = r->args,
        .env = r->env,
        .files = r->files,
        .n_files = r->n_files,
        .outputs = r->outputs,
        .mounts = r->mounts,
        .n_mounts = r->n_mounts,
        .limits = r->opt.limits,
        .no_pool = true,
    };
}
