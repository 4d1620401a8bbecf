/* SPDX-License-Identifier: Apache-2.0 */
/* The reference of all settings as Markdown, from the table; see config.h. */
#include <string.h>

#include "base/str.h"
#include "config/config_impl.h"

static const char intro[] =
    "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
    "<!-- Written by: husk config doc > docs/config.md. Change src/config/config.def instead. -->\n"
    "# Configuration of huskd\n"
    "\n"
    "The value of a setting comes from the last of these that has one:\n"
    "\n"
    "1. its default;\n"
    "2. for `/workspace/se` only: the variable of the original Sandbox Runtime, in its own unit;\n"
    "3. the file: `--config PATH`, else `$HUSK_CONFIG`, else `" CONFIG_SYSTEM_FILE
    "` if it exists;\n"
    "4. the environment: `HUSK_` and the key in capitals, such as `HUSK_LISTEN`;\n"
    "5. a flag: the key with dashes, such as `husk up --listen 127.0.0.1:8000`.\n"
    "\n"
    "`husk config show` prints every value and its source, `husk config check` every mistake. With "
    "a "
    "mistake `husk up`\n"
    "does not start. An unknown `HUSK_` variable is a "
    "warning.\n"
    "\n"
    "## The file\n"
    "\n"
    "```ini\n"
    "# Lines that start with # or ; are comments; so is text after a space and a semicolon.\n"
    "listen = 127.0.0.1:8000, [::1]:8000\n"
    "data = /srv/husk\n"
    "\n"
    "[pool]\n"
    "min = 4 ; the same as pool_min\n"
    "max = 32\n"
    "```\n"
    "\n"
    "Outside a section a key is written in full. Sections are the headings below, in brackets; in "
    "a "
    "section its prefix\n"
    "can be left out. A key can appear once; a list can appear several times and collects its "
    "entries. A list from a\n"
    "stronger source replaces the whole list. A line has at most 198 characters.\n"
    "\n"
    "## Values\n"
    "\n"
    "| kind | how to write it |\n"
    "|---|---|\n"
    "| SIZE | bytes, or with K, M, G, T (powers of 1024): `4096`, `64M`, `1G` |\n"
    "| TIME | seconds, or with ms, s, m, h: `5`, `500ms`, `1.5`, `2m` |\n"
    "| COUNT | a whole number |\n"
    "| CORES | a number with up to three decimals: `2`, `0.5` |\n"
    "| BOOL | `true`, `1`, `yes`, `on` or `false`, `0`, `no`, `off`; a flag alone means `true` |\n"
    "| MODE | file permissions in octal: `0660` |\n"
    "| PATH | absolute in the file; elsewhere it can be relative to the working directory |\n"
    "| ADDRESS, HOST, ORIGIN, NAME | a list, separated by commas or spaces; a flag may be repeated "
    "|\n";

/* '|' ends a cell, even in code. */
static void print_cell(FILE *to, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|') {
            fputc('\\', to);
        }
        fputc(*text, to);
    }
}

static void print_allowed(FILE *to, const struct config_row *row)
{
    char least[32];
    char most[32];

    switch (row->type) {
    case CONFIG_TYPE_CHOICE:
        fprintf(to, "one of: %s", row->choices);
        return;
    case CONFIG_TYPE_MODE:
    case CONFIG_TYPE_COUNT:
    case CONFIG_TYPE_SIZE:
    case CONFIG_TYPE_DURATION:
    case CONFIG_TYPE_CPU:
        (void)config_number_text(row, row->least, least, sizeof(least));
        (void)config_number_text(row, row->most, most, sizeof(most));
        fprintf(to, "%s, %s to %s", row->arg, least, most);
        return;
    case CONFIG_TYPE_PATH:
        fprintf(to, "PATH of at most %u characters", (unsigned)row->most);
        return;
    case CONFIG_TYPE_ADDRESSES:
    case CONFIG_TYPE_HOSTS:
    case CONFIG_TYPE_ORIGINS:
    case CONFIG_TYPE_NAMES:
        fprintf(to, "%s, up to %u", row->arg, (unsigned)row->most);
        return;
    case CONFIG_TYPE_ACCOUNT:
    case CONFIG_TYPE_BOOL:
        fputs(row->arg, to);
        return;
    }
}

static void print_default(FILE *to, const struct config_row *row)
{
    if (row->fallback == NULL) {
        fputs("see meaning", to);
    } else if (row->fallback[0] == '\0') {
        fputs("none", to);
    } else {
        fprintf(to, "`%s`", row->fallback);
    }
}

static void print_row(FILE *to, const struct config_row *row)
{
    char env[CONFIG_NAME_MAX];

    config_env_name(row, env);
    fprintf(to, "| `%s`<br>`%s`<br>`--%s`", row->key, env, row->flag);
    if (row->seed != NULL) {
        const char *unit = row->seed_unit == 0             ? ""
                           : row->type == CONFIG_TYPE_SIZE ? " (KB)"
                                                           : " (seconds)";
        fprintf(to, "<br>`%s`%s", row->seed, unit);
    }
    fputs(" | ", to);
    print_default(to, row);
    fputs(" | ", to);
    print_allowed(to, row);
    fprintf(to, " | %s | ", row->reload ? "yes" : "no");
    print_cell(to, row->help);
    fputs(" |\n", to);
}

void config_print_markdown(FILE *to)
{
    fputs(intro, to);
    for (int group = 0; group < CONFIG_GROUPS; group++) {
        const char *prefix = config_group_prefix((enum config_group)group);

        fprintf(to, "\n## [%s] %s\n\n", config_group_name((enum config_group)group),
                config_group_title((enum config_group)group));
        if (prefix[0] != '\0') {
            fprintf(to, "In this section the prefix `%s` can be left out.\n\n", prefix);
        }
        fputs("| setting | default | allowed | reload | meaning |\n|---|---|---|---|---|\n", to);
        for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
            if ((int)config_rows[key].group == group) {
                print_row(to, &config_rows[key]);
            }
        }
    }
}
