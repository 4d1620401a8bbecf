/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox-run: the configuration file, the time limit, and what a result means. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fd.h"
#include "cli/sandbox_run/sandbox_run.h"
#include "tap.h"

static struct err e;

static int parse(struct sandbox_config *c, const char *text)
{
    *c = sandbox_config_default();
    return sandbox_config_parse(c, text, strlen(text), &e);
}

TEST(an_empty_configuration_is_the_default)
{
    struct sandbox_config c;

    CHECK_INT(parse(&c, "{}"), 0);
    CHECK_INT(c.memory_bytes, 262144 * 1024);
    CHECK_INT(c.cpu_milli, 3000);
    CHECK_INT(c.pids, 0);
    CHECK_INT(c.timeout_ms, 300000);
    CHECK_INT(c.format, SANDBOX_PRETTY);
    CHECK_INT(c.level, LOG_WARN);
    CHECK(c.colors);
    CHECK(!c.show_profile);
}

TEST(every_key_is_honoured)
{
    struct sandbox_config c;

    CHECK_INT(parse(&c, "{\"sandbox\": {\"allow_network\": false, \"cpu_quota\": 150,"
                        "\"memory_limit\": 65536, \"max_idle_time\": 60, \"max_user_progress\": 20,"
                        "\"max_task_count\": 10}, \"cli\": {\"default_timeout\": 7,"
                        "\"default_format\": \"yaml\", \"enable_colors\": false,"
                        "\"show_profile\": true}, \"logging\": {\"level\": \"DEBUG\"}}"),
              0);
    CHECK_INT(c.cpu_milli, 1500);
    CHECK_INT(c.memory_bytes, 65536 * 1024);
    CHECK_INT(c.pids, 20);
    CHECK_INT(c.timeout_ms, 7000);
    CHECK_INT(c.format, SANDBOX_YAML);
    CHECK_INT(c.level, LOG_DEBUG);
    CHECK(!c.colors);
    CHECK(c.show_profile);
}

TEST(cpu_quota_is_cores_up_to_64_and_percent_above)
{
    static const struct {
        const char *text;
        int milli;
    } cases[] = {
        {"{\"sandbox\": {\"cpu_quota\": 2}}", 2000},   {"{\"sandbox\": {\"cpu_quota\": 0.5}}", 500},
        {"{\"sandbox\": {\"cpu_quota\": 64}}", 64000}, {"{\"sandbox\": {\"cpu_quota\": 65}}", 650},
        {"{\"sandbox\": {\"cpu_quota\": 300}}", 3000},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct sandbox_config c;

        CASE("%s", cases[i].text);
        CHECK_INT(parse(&c, cases[i].text), 0);
        CHECK_INT(c.cpu_milli, cases[i].milli);
    }
}

TEST(mistakes_name_the_key_and_change_nothing)
{
    static const struct {
        const char *text;
        const char *message; /* its beginning */
    } cases[] = {
        {"[]", "must be an object"},
        {"{", "the configuration is not valid JSON: line 1, column 1"},
        {"{\"cli\": {}, \"cli\": {}}", "the configuration is not valid JSON"},
        {"{\"sandbx\": {}}", "unknown section \"sandbx\""},
        {"{\"sandbox\": []}", "sandbox must be an object"},
        {"{\"sandbox\": {\"memory\": 1}}", "unknown key sandbox.memory"},
        {"{\"cli\": {\"memory_limit\": 1}}", "unknown key cli.memory_limit"},
        {"{\"sandbox\": {\"allow_network\": true}}", "sandbox.allow_network: must be false"},
        {"{\"sandbox\": {\"allow_network\": 0}}", "sandbox.allow_network: must be true or false"},
        {"{\"sandbox\": {\"cpu_quota\": 0}}", "sandbox.cpu_quota: must be a number"},
        {"{\"sandbox\": {\"cpu_quota\": -1}}", "sandbox.cpu_quota: must be a number"},
        {"{\"sandbox\": {\"cpu_quota\": 1e308}}", "sandbox.cpu_quota: must be a number"},
        {"{\"sandbox\": {\"cpu_quota\": \"2\"}}", "sandbox.cpu_quota: must be a number"},
        {"{\"sandbox\": {\"memory_limit\": 0}}",
         "sandbox.memory_limit: must be a whole number from 16384 to 1073741824"},
        {"{\"sandbox\": {\"memory_limit\": 1.5}}", "sandbox.memory_limit: must be a whole number"},
        {"{\"sandbox\": {\"memory_limit\": 9223372036854775808}}", "sandbox.memory_limit: must be"},
        {"{\"sandbox\": {\"memory_limit\": 16383}}",
         "sandbox.memory_limit: must be a whole number from 16384 to 1073741824"},
        {"{\"sandbox\": {\"memory_limit\": true}}", "sandbox.memory_limit: must be a whole number"},
        {"{\"sandbox\": {\"max_idle_time\": -1}}", "sandbox.max_idle_time: must be a whole"},
        {"{\"sandbox\": {\"max_user_progress\": 0}}", "sandbox.max_user_progress: must be a whole"},
        {"{\"sandbox\": {\"max_task_count\": 0}}", "sandbox.max_task_count: must be a whole"},
        {"{\"cli\": {\"default_timeout\": 0}}", "cli.default_timeout: must be a whole number"},
        {"{\"cli\": {\"default_timeout\": \"5\"}}", "cli.default_timeout: must be a whole number"},
        {"{\"cli\": {\"default_format\": \"xml\"}}", "cli.default_format: must be \"pretty\""},
        {"{\"cli\": {\"default_format\": null}}", "cli.default_format: must be \"pretty\""},
        {"{\"cli\": {\"enable_colors\": \"no\"}}", "cli.enable_colors: must be true or false"},
        {"{\"logging\": {\"level\": \"debug\"}}", "logging.level: must be \"DEBUG\""},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct sandbox_config c;

        CASE("%s: %s", cases[i].text, e.msg);
        CHECK_INT(parse(&c, cases[i].text), -1);
        CHECK_INT(e.code, ERR_INVALID);
        CASE("%s: %s", cases[i].text, e.msg);
        CHECK(strncmp(e.msg, cases[i].message, strlen(cases[i].message)) == 0);
        CHECK_INT(c.memory_bytes, 262144 * 1024);
        CHECK_INT(c.timeout_ms, 300000);
    }
}

static void put(const char *dir, const char *text)
{
    char path[200];

    snprintf(path, sizeof(path), "%s/.sandboxrc.json", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_INT(fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

TEST(the_working_directory_comes_before_home)
{
    char root[] = "/tmp/husk-config-XXXXXX";
    struct sandbox_config c = sandbox_config_default();

    CHECK(mkdtemp(root) != NULL);
    CHECK_INT(chdir(root), 0);
    CHECK_INT(mkdir("home", 0700), 0);
    CHECK_INT(mkdir("work", 0700), 0);
    CHECK_INT(setenv("HOME", "../home", 1), 0);
    CHECK_INT(chdir("work"), 0);

    CHECK_INT(sandbox_config_load(&c, &e), 0); /* neither */
    CHECK_INT(c.timeout_ms, 300000);
    put("../home", "{\"cli\": {\"default_timeout\": 2}}");
    CHECK_INT(sandbox_config_load(&c, &e), 0);
    CHECK_INT(c.timeout_ms, 2000);
    put(".", "{\"cli\": {\"default_timeout\": 1}}");
    CHECK_INT(sandbox_config_load(&c, &e), 0);
    CHECK_INT(c.timeout_ms, 1000);
    put(".", "{\"cli\": {\"default_timeout\": -1}}");
    CHECK_INT(sandbox_config_load(&c, &e), -1);
    CHECK(strncmp(e.msg, ".sandboxrc.json: cli.default_timeout: ", 38) == 0);

    CHECK_INT(unlink(".sandboxrc.json"), 0);
    CHECK_INT(unlink("../home/.sandboxrc.json"), 0);
    CHECK_INT(unsetenv("HOME"), 0);
    CHECK_INT(sandbox_config_load(&c, &e), 0);
    CHECK_INT(chdir(root), 0);
    CHECK_INT(rmdir("home") + rmdir("work") + rmdir(root), 0);
}

TEST(the_time_limit_follows_flag_event_and_configuration)
{
    static const struct {
        const char *event;
        uint32_t flag;
        int want_ms;
    } cases[] = {
        {"{}", 0, 7000},
        {"{}", 9, 9000},
        {"{\"__timeout\": 5}", 0, 5000},
        {"{\"__timeout\": 5}", 9, 5000},
        {"{\"__timeout\": 5}", 2, 2000},
        {"{\"__timeout\": 0}", 0, 7000},
        {"{\"__timeout\": -3}", 9, 9000},
        {"{\"__timeout\": 0.25}", 0, 250},
        {"{\"__timeout\": 1e-9}", 0, 1},
        {"{\"__timeout\": 3601}", 0, 3600000},
        {"{\"__timeout\": 1e308}", 0, 3600000},
        {"{\"__timeout\": 99999999999999999999999}", 4000, 3600000},
        {"[1]", 0, 7000},
        {"\"__timeout\"", 0, 7000},
    };
    struct sandbox_config c = sandbox_config_default();

    c.timeout_ms = 7000;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct sandbox_options o = {.event = (char *)cases[i].event, .timeout = cases[i].flag};
        struct sandbox_input in = {0};

        CASE("%s %u", cases[i].event, cases[i].flag);
        CHECK_INT(sandbox_input_read(&in, &o, &c, &e), 0);
        CHECK_INT(sandbox_timeout_ms(&o, &c, &in), cases[i].want_ms);
        CHECK_STR(in.event.data, cases[i].event);
        CHECK_STR(in.context.data, "{\"memory_limit_in_mb\":256}");
        sandbox_input_release(&in);
    }
}

TEST(context_tells_the_memory_of_the_box)
{
    static const struct {
        const char *context;
        const char *want;
    } cases[] = {
        {"{}", "{\"memory_limit_in_mb\":64}"},
        {" \n{ }", "{\"memory_limit_in_mb\":64 }"},
        {"{\"function_name\": \"{\"}", "{\"memory_limit_in_mb\":64,\"function_name\": \"{\"}"},
        {"{\"memory_limit_in_mb\": 7}", "{\"memory_limit_in_mb\": 7}"},
    };
    struct sandbox_config c = sandbox_config_default();

    c.memory_bytes = (uint64_t)65536 << 10;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct sandbox_options o = {.context = (char *)cases[i].context};
        struct sandbox_input in = {0};

        CASE("%s", cases[i].context);
        CHECK_INT(sandbox_input_read(&in, &o, &c, &e), 0);
        CHECK_STR(in.context.data, cases[i].want);
        sandbox_input_release(&in);
    }
}

TEST(wrong_events_and_contexts_are_refused)
{
    static const struct {
        const char *event;
        const char *context;
        const char *message;
    } cases[] = {
        {"{\"__timeout\": \"5\"}", NULL, "the event's __timeout must be a number of seconds"},
        {"{\"__timeout\": true}", NULL, "the event's __timeout must be a number of seconds"},
        {"{\"a\": 1, \"a\": 2}", NULL, "event is not valid JSON: line 1, column 12: duplicate"},
        {"{", NULL, "event is not valid JSON"},
        {"", NULL, "event is not valid JSON"},
        {"{}", "[]", "the context must be a JSON object"},
        {"{}", "x", "context is not valid JSON"},
    };
    struct sandbox_config c = sandbox_config_default();

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct sandbox_options o = {.event = (char *)cases[i].event,
                                    .context = (char *)cases[i].context};
        struct sandbox_input in = {0};

        CHECK_INT(sandbox_input_read(&in, &o, &c, &e), -1);
        CASE("%s: %s", cases[i].event, e.msg);
        CHECK(strncmp(e.msg, cases[i].message, strlen(cases[i].message)) == 0);
        sandbox_input_release(&in);
    }

    struct sandbox_options missing = {.event_file = (char *)"/nonexistent/event.json"};
    struct sandbox_input in = {0};
    CHECK_INT(sandbox_input_read(&in, &missing, &c, &e), -1);
    CHECK(strstr(e.msg, "/nonexistent/event.json") != NULL);
    sandbox_input_release(&in);
}

static struct husk_result result_of(enum husk_status status, const char *json, const char *type)
{
    return (struct husk_result){
        .status = status,
        .value = (char *)(json != NULL ? "value" : NULL),
        .value_json = (char *)json,
        .error = {.type = (char *)type, .message = (char *)"why"},
    };
}

TEST(a_result_becomes_an_exit_code)
{
    static const struct {
        enum husk_status status;
        const char *json;
        const char *type;
        const char *traceback;
        int code;
    } cases[] = {
        {HUSK_COMPLETED, "1", NULL, NULL, SANDBOX_OK},
        {HUSK_COMPLETED, "null", NULL, NULL, SANDBOX_OK},
        {HUSK_COMPLETED, NULL, NULL, NULL, SANDBOX_ERROR},     /* it called sys.exit() */
        {HUSK_COMPLETED, "{\"a\"", NULL, NULL, SANDBOX_ERROR}, /* a box may claim anything */
        {HUSK_COMPLETED, "1}, \"x\": {", NULL, NULL, SANDBOX_ERROR},
        {HUSK_FAILED, NULL, "ValueError", "t", SANDBOX_ERROR},
        {HUSK_FAILED, NULL, NULL, NULL, SANDBOX_ERROR},
        {HUSK_FAILED, NULL, "NoHandler", NULL, SANDBOX_CODE},
        {HUSK_FAILED, NULL, "SyntaxError", "  File \"x\", line 1\n", SANDBOX_CODE},
        {HUSK_FAILED, NULL, "SyntaxError", "  File \"x\", line 1\n    for x, in y\n", SANDBOX_CODE},
        {HUSK_FAILED, NULL, "SyntaxError",
         "Traceback (most recent call last):\n  File \"x\", line 1, in <module>\n", SANDBOX_CODE},
        {HUSK_FAILED, NULL, "SyntaxError",
         "Traceback (most recent call last):\n  File \"x\", line 1, in main\n"
         "  File \"x\", line 2, in <module>\n",
         SANDBOX_ERROR},
        {HUSK_FAILED, NULL, "IndentationError", NULL, SANDBOX_CODE},
        {HUSK_FAILED, NULL, "TabError", NULL, SANDBOX_CODE},
        {HUSK_FAILED, NULL, "SyntaxError", "  File \"x\", line 9, in handler\n    y\n",
         SANDBOX_ERROR},
        {HUSK_TIMEOUT, NULL, NULL, NULL, SANDBOX_TIMEOUT},
        {HUSK_TIMEOUT, NULL, "SyntaxError", NULL, SANDBOX_TIMEOUT},
        {HUSK_MEMORY_EXCEEDED, NULL, "MemoryError", NULL, SANDBOX_ERROR},
        {HUSK_CRASHED, NULL, NULL, NULL, SANDBOX_ERROR},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct husk_result run = result_of(cases[i].status, cases[i].json, cases[i].type);

        CASE("row %zu", i);
        run.error.traceback = (char *)cases[i].traceback;
        struct sandbox_outcome o = sandbox_outcome_of(&run);
        CHECK_INT(o.code, cases[i].code);
        CHECK((o.error_type[0] != '\0') == (cases[i].code != SANDBOX_OK));
        CHECK((o.value_json != NULL) == (cases[i].code == SANDBOX_OK));
    }
}
