/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a workspace that a hostile file worker made: huskd keeps it unread and has it unpacked
 * in the session's next box. Nothing of it may end up outside /workspace of that box, whatever the
 * archive says, and the box and its files go on working.
 */
#include <string.h>

#include "files_fixture.h"

/*
 * Makes an archive in the box, as a hostile worker would, and unpacks it as a copy. An entry that
 * cannot be made is left out, and the copy reports it.
 */
static void try_copy(const char *make, const char *want)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    AUTO_BUF struct buf archive = BUF_INIT(0);
    struct err e = {0};
    char code[2000];

    CHECK_INT(str_format(code, sizeof(code),
                         "import io, os, tarfile\n"
                         "t = tarfile.open('bad.tar', 'w', format=tarfile.PAX_FORMAT)\n"
                         "def add(name, kind=tarfile.REGTYPE, link='', data=b'', mode=0o644):\n"
                         "    i = tarfile.TarInfo(name); i.type = kind; i.linkname = link\n"
                         "    i.size = len(data); i.mode = mode; t.addfile(i, io.BytesIO(data))\n"
                         "def link(name, to): add(name, tarfile.SYMTYPE, to)\n"
                         "add('good', data=b'good')\n%s\nt.close(); os.mkdir('/tmp/d')\n"
                         "with open('/tmp/theirs', 'w') as f: f.write('theirs')\n",
                         make),
              0);
    CHECK_CELL(s, 0, code, NULL);
    CHECK_DONE(fixture_read(f, "bad.tar", false, &archive, &e));
    struct fixture_bytes bytes = {.data = archive.data, .left = archive.len};
    struct box_files_unpack unpack = {.source = fixture_from(&bytes), .copy = true};
    int r = box_files_unpack(f, "", &unpack, &e);
    const char *got = unpack.more ? "left_out" : files_msg_status_name(box_files_status(f));
    CHECK_STR(got, want);
    CHECK_INT(r, str_eq(want, "invalid_archive") ? -1 : 0);
    CHECK(box_files_is_usable(f));
    CHECK_CELL(s, 0,
               "[open('good').read(), open('/tmp/theirs').read(), sorted(os.listdir('/tmp')), "
               "os.listdir('/tmp/d'), os.path.lexists('/escaped')]",
               "['good', 'theirs', ['d', 'theirs'], [], False]");
}

#define COPY(name, make, want)                                                                     \
    TEST(a_copy_##name)                                                                            \
    {                                                                                              \
        try_copy(make, want);                                                                      \
    }

COPY(has_a_name_that_leads_out, "add('../tmp/x', data=b'x')", "invalid_archive")
COPY(has_an_absolute_name, "add('/tmp/x', data=b'x')", "invalid_archive")
COPY(goes_out_on_the_way, "add('a/../../tmp/x', data=b'x')", "invalid_archive")
COPY(has_a_character_device, "add('null', tarfile.CHRTYPE)", "invalid_archive")
COPY(has_a_block_device, "add('disk', tarfile.BLKTYPE)", "invalid_archive")
COPY(has_a_pipe, "add('pipe', tarfile.FIFOTYPE)", "invalid_archive")
COPY(names_a_file_elsewhere_once_more, "add('l', tarfile.LNKTYPE, '/tmp/theirs')",
     "invalid_archive")
COPY(names_a_file_above_once_more, "add('l', tarfile.LNKTYPE, '../tmp/theirs')", "invalid_archive")

/* Links of a copy lead where they led, which may be anywhere. What follows must not use them. */
COPY(writes_through_a_link_of_its_own, "link('l', '/tmp'); add('l/x', data=b'x')", "left_out")
COPY(makes_a_folder_through_a_link, "link('l', '/tmp/d'); add('l/x', tarfile.DIRTYPE)", "left_out")
COPY(writes_where_its_link_leads, "link('l', '/tmp/theirs'); add('l', data=b'evil')", "ok")
COPY(names_a_link_twice_and_writes_it,
     "link('l', '/tmp/theirs'); add('h', tarfile.LNKTYPE, 'l'); add('h', data=b'evil')", "ok")
