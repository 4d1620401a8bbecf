/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of config/config_file.c: a whole configuration file. */
#include <stdlib.h>
#include <string.h>

#include "config/config_impl.h"
#include "fuzz.h"

#define MOST 8192

/* What the file set is shown as text that sets the same value again. */
static void check_value(const struct config *c, enum config_key key)
{
    AUTO_BUF struct buf text = BUF_INIT(65536);
    AUTO_BUF struct buf again = BUF_INIT(65536);
    struct config other = {0};
    struct err e;

    FUZZ_CHECK(config_value_text(c, key, &text, &e) == 0);
    FUZZ_CHECK(config_value_set(&other, key, text.data, CONFIG_FROM_FILE, &e) == 0);
    FUZZ_CHECK(config_value_text(&other, key, &again, &e) == 0);
    FUZZ_CHECK(strcmp(text.data, again.data) == 0);
    config_release(&other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config_input in = {0};
    struct config_report report = {0};
    struct config c = {.file = strdup("f")};
    struct config_loader loader = {.in = &in, .c = &c, .report = &report};
    unsigned lines = 1;

    if (c.file == NULL || size > MOST) {
        free(c.file);
        return 0;
    }
    for (size_t i = 0; i < size; i++) {
        lines += data[i] == '\n';
    }
    config_file_text(&loader, (const char *)data, size);

    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        if (c.origin[key].source == CONFIG_FROM_FILE) {
            FUZZ_CHECK(c.origin[key].line >= 1 && c.origin[key].line <= lines);
            check_value(&c, key);
        } else {
            FUZZ_CHECK(c.origin[key].source == CONFIG_FROM_DEFAULT);
        }
    }
    /* Every complaint is one line that starts with the place. */
    unsigned n = 0;
    for (const char *at = report.errors.data; at != NULL && *at != '\0'; n++) {
        FUZZ_CHECK(strncmp(at, "f:", 2) == 0);
        at = strchr(at, '\n');
        FUZZ_CHECK(at != NULL);
        at++;
    }
    FUZZ_CHECK(n <= report.n_errors && (n > 0) == (report.n_errors > 0));
    FUZZ_CHECK(report.n_warnings == 0);
    config_report_release(&report);
    config_release(&c);
    return 0;
}
