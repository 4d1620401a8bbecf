# SPDX-License-Identifier: Apache-2.0
"""The table of mutations: each row takes one defence out of the source, and names the test that must
fail then. test_mutations.py applies them one after the other to a copy.

A row says what the defence is, which texts of which files go (each text must be in its file exactly
once), the test, and a part of what its failing assertion prints. The mutated program must compile
without a warning and must start: a test that fails because nothing runs shows nothing. What the
test tries must do no harm to the host where it succeeds.

Where a second defence would catch the attempt first, the test looks at the first one from outside.
"""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One text of one file, and what takes its place."""

    file: str
    text: str
    replacement: str


@dataclass(frozen=True)
class Mutation:
    """A defence that is taken away. test is "program:name" of a C test, or a pytest."""

    name: str
    defence: str
    edits: tuple[Edit, ...]
    test: str
    says: str


CONFINE_ZYGOTE = "src/box/zygote_confine.c"
CONFINE_DAEMON = "src/daemon/confine.c"
PLACE = "src/supervisor/place_files.c"
ZYGOTE_TESTS = "tests/breach/test_hostile_zygote.py"

MUTATIONS = [
    # ---- zygotes ----
    Mutation(
        "mount_lock",
        "a second user and mount namespace locks the mounts of a zygote",
        (
            Edit(
                CONFINE_ZYGOTE,
                "for (size_t i = 0; i < ARRAY_LEN(steps); i++)",
                "for (size_t i = 1; i < ARRAY_LEN(steps); i++)",
            ),
        ),
        f"{ZYGOTE_TESTS}::test_mounts_of_a_zygote_are_locked[writable-/usr]",
        "assert 'reached: 0' == 'EPERM'",
    ),
    Mutation(
        "zygote_capabilities",
        "a zygote has no capability that making a box does not need",
        (
            Edit(
                CONFINE_ZYGOTE,
                "sys_caps_bound(caps_kept(c->single_id))",
                "sys_caps_bound(caps_kept(c->single_id) | (uint64_t)1 << CAP_SYS_CHROOT)",
            ),
        ),
        "test_zygote_walls:a_zygote_has_the_capabilities_that_boxes_need_and_no_others",
        'failed: text is "00000000002410c0", not "00000000002010c0"',
    ),
    Mutation(
        "early_filter",
        "a zygote has the early half of the boxes' filter before it imports anything",
        (
            Edit(
                CONFINE_ZYGOTE,
                "int r = seccomp_load(&seccomp_programs[c->seccomp].early);",
                "static const struct sock_filter all = {0x06, 0, 0, 0x7fff0000};\n"
                "    int r = seccomp_load(&(struct seccomp_code){.code = &all, .len = 1});",
            ),
        ),
        "test_zygote_walls:a_zygote_has_the_filter_that_its_boxes_inherit",
        "ptrace(PTRACE_SECCOMP_GET_FILTER, zygote, NULL, code) is 1, not ",
    ),
    Mutation(
        "zygote_alone",
        "a zygote is alone when it is ready: no process or thread of a preload stays",
        (Edit("src/launcher/template_run.c", "return n <= 1 ? 0", "return n <= 1000 ? 0"),),
        f"{ZYGOTE_TESTS}::test_a_hostile_template_is_refused[leaves_a_grandchild]",
        "assert 201 in (422, 500, 503)",
    ),
    Mutation(
        "inspection",
        "the filter of a box is read from outside and compared",
        (
            Edit(
                "src/launcher/inspect.c",
                "return n == want->len && memcmp(",
                "return n >= 0 || memcmp(",
            ),
        ),
        f"{ZYGOTE_TESTS}::test_a_hostile_template_is_refused[patched_filters]",
        "assert 201 in (422, 500, 503)",
    ),
    Mutation(
        "cgroup_reuse",
        "a cgroup never changes its template",
        (
            Edit(
                "src/launcher/box_cgroup.c",
                "    if (t->n_spare > 0) {",
                "    for (size_t i = 0; i < TEMPLATES_MAX && t->n_spare == 0; i++) {\n"
                "        t = l->templates[i].n_spare > 0 ? &l->templates[i] : t;\n"
                "    }\n"
                "    if (t->n_spare > 0) {",
            ),
        ),
        f"{ZYGOTE_TESTS}::test_no_box_gets_a_cgroup_of_another_template",
        "assert not seen[0] & seen[1]",
    ),
    # ---- the launcher and its client ----
    Mutation(
        "operator_column",
        "only the operator defines templates (permit table)",
        (
            Edit(
                "src/launcher/permit.c",
                "l->supervised ? CLIENT : CLIENT | OPERATOR;",
                "CLIENT | OPERATOR;",
            ),
        ),
        "test_hostile_daemon:a_daemon_starts_a_template",
        "failed: !launcher_next(c, &rep)",
    ),
    Mutation(
        "ends",
        "a box gets an end of a unix socketpair, and no other socket",
        (
            Edit(
                "src/launcher/ends.c",
                "if (!is_pair_end(fds->fds[0])) {",
                "if (fds->fds[0] < 0 && !is_pair_end(fds->fds[0])) {",
            ),
        ),
        "test_launcher_ends:a_box_gets_an_end_of_a_socketpair_and_pipes_only",
        "in case: a TCP socket as descriptor 0",
    ),
    Mutation(
        "template_bounds",
        "the limits of a box are within its template's bounds",
        (
            Edit(
                "src/launcher/box.c",
                "limits_within(&req->box.limits, &t->start.most, e) < 0 || ",
                "",
            ),
        ),
        "test_hostile_daemon:a_daemon_wants_more_memory_than_the_template_allows",
        "failed: operation 11 was answered by event 4, not 2",  # a box, not an error
    ),
    Mutation(
        "lease_marks",
        "host ids that are in use are marked for every launcher of the kernel",
        (
            Edit(
                "src/launcher/lease.c",
                "    int r = send_mark(s, 0);\n    return r < 0 ? r : send_mark(s, 1);",
                "    (void)send_mark;\n    return 0;",
            ),
        ),
        "test_launcher_leases:a_lease_marks_every_ward_and_ends_with_its_last_holder",
        "failed: is_marked(first + i)",
    ),
    Mutation(
        "launcher_capabilities",
        "the launcher keeps the capabilities of its table only",
        (
            Edit(
                "src/launcher/caps.c",
                "r = sys_caps_keep(keep);",
                "r = sys_caps_keep(keep | (uint64_t)1 << CAP_SYS_CHROOT);",
            ),
        ),
        "test_launcher_caps:a_launcher_and_its_guard_keep_what_the_table_says",
        "failed: cap_set(pid, kept[i]) is ",
    ),
    # ---- huskd ----
    Mutation(
        "daemon_landlock",
        "huskd writes in its store only (Landlock)",
        (
            Edit(
                CONFINE_DAEMON,
                'const char *writable[] = {store, "/dev/null"};',
                'const char *writable[] = {store, "/"};',
            ),
        ),
        "test_confined_daemon:a_confined_daemon_writes_a_file_outside_its_store",
        "failed: tried to write a file that is open to all: it succeeded",
    ),
    Mutation(
        "daemon_filter",
        "huskd has no system call that it does not need (seccomp)",
        (Edit(CONFINE_DAEMON, "int r = seccomp_load(&seccomp_daemon.whole);", "int r = 0;"),),
        "test_confined_daemon_calls:a_confined_daemon_makes_a_user_namespace",
        "failed: tried to make a user namespace, with every capability in it: it succeeded",
    ),
    Mutation(
        "client_variables",
        "variables of a client's template are those of its runs, not of a zygote",
        (
            Edit(
                "src/core/template_file.c",
                "bool is_clients = p->side == CLIENTS;\n    size_t *n",
                "bool is_clients = p->side == CLIENTS && p->def == NULL;\n    size_t *n",
            ),
        ),
        "test_template_file:a_clients_variables_are_not_the_zygotes",
        "failed: def.n_env is 1, not 0",
    ),
    Mutation(
        "frame_budget",
        "what huskd holds of a box's unfinished frames is bounded by the box's share",
        (
            Edit(
                "src/core/budget.c",
                "s->is_dying || n > s->max || s->held > s->max - n",
                "s->is_dying",
            ),
        ),
        "test_channel:a_box_has_no_more_held_than_its_share",
        "failed: send_body(&c, box, 23 * MIB) is 0, not -122",
    ),
    Mutation(
        "worker_names",
        "a file worker names files below the folder that it was asked about",
        (
            Edit(
                "src/wire/files_msg.c",
                "!info_ok(&entry.info) || !files_msg_path_ok(name, entry.name_len, false) ||",
                "!info_ok(&entry.info) ||",
            ),
        ),
        "test_hostile_file_worker:a_worker_names_a_folder_above",
        "failed: (request(hostile.files, &e)) is 0, not -1",
    ),
    Mutation(
        "agent_frames",
        "a frame of an agent's worker is no larger than huskd allows",
        (Edit("src/agents/agent_frame.c", "f.len > AGENT_PAYLOAD_MAX ||", ""),),
        "test_agent_frame:heads_that_no_worker_may_send",
        "failed: agent_frame_read(head, sizeof(head), &got) is 1, not -1",
    ),
    Mutation(
        "host_check",
        "a request must name a host that is served",
        (
            Edit(
                "src/http/request.c",
                "if (!c->peer.is_unix && !config->any_host &&",
                "if (c->peer.is_unix && !config->any_host &&",
            ),
        ),
        "tests/integration/server/test_api_common.py::test_other_hosts_are_refused",
        "assert 200 == 421",
    ),
    # ---- root's files ----
    Mutation(
        "sealed_plan",
        "a plan of agents is read from a sealed file only",
        (
            Edit(
                "src/config/agents_plan_seal.c",
                "if (seals < 0 || (seals & SEALS) != SEALS) {",
                "if (seals == 0 && SEALS == 0) {",
            ),
        ),
        "test_agents_plan:a_plan_that_could_change_is_not_read",
        "agents_plan_read_sealed(fds[i], &plan, &e) is 0, not -1",
    ),
    Mutation(
        "owner_of_files",
        "root trusts no file of another account in its data folder",
        (Edit(PLACE, "st.st_uid != geteuid() || ", ""),),
        "test_supervisor_place:log_and_settings_from_the_account_are_neither_read_nor_written",
        "fd >= 0 is 1, not 0",
    ),
    Mutation(
        "links_of_files",
        "root follows no link in its data folder",
        (Edit(PLACE, "O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK", "O_CLOEXEC | O_NONBLOCK"),),
        "test_supervisor_place:log_and_settings_from_the_account_are_neither_read_nor_written",
        "fd >= 0 is 1, not 0",
    ),
]
