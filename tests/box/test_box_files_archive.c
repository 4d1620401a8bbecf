/* SPDX-License-Identifier: Apache-2.0 */
/* Archives out of and into a live session. */
#include <string.h>

#include "files_fixture.h"
#include "wire/tar.h"

TEST(an_archive_comes_back_as_it_went)
{
    static const char survey[] =
        "import os, hashlib\n"
        "def survey(top):\n"
        "    out = []\n"
        "    for d, ds, fs in os.walk(os.fsencode(top)):\n"
        "        for n in ds + fs:\n"
        "            p = os.path.join(d, n); s = os.lstat(p)\n"
        "            link = os.path.islink(p)\n"
        "            c = os.readlink(p) if link else b'' if n in ds else open(p, 'rb').read()\n"
        "            out.append((os.path.relpath(p, os.fsencode(top)), oct(s.st_mode), c, "
        "0 if link or n in ds else int(s.st_mtime)))\n"
        "    return sorted(out)\n"
        "survey('t') == survey('u') and len(survey('t'))";
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    AUTO_BUF struct buf archive = BUF_INIT(0);
    struct box_files_sink sink = fixture_into(&archive);
    struct err e = {0};

    CHECK_CELL(
        s, 0,
        "import os\nos.umask(0o022); long = 't/' + 'n' * 200; deep = 't/' + '/'.join(['d' * 60] * "
        "5)\n"
        "os.makedirs(long); os.makedirs(deep)\n"
        "open(long + '/f', 'wb').write(b'x' * 513); open(deep + '/' + 'g' * 255, 'w').close()\n"
        "open(b't/\\xff\\xfe', 'w').write('binary'); open(b't/' + b'\\xff' * 150, 'w').close()\n"
        "open('t/run', 'w').write('#!/bin/sh'); os.chmod('t/run', 0o755)\n"
        "open('t/big', 'wb').write(os.urandom(3 << 20)); os.utime('t/big', (5, 5))\n"
        "os.symlink('run', 't/link'); os.symlink('y' * 150, 't/longlink')\n"
        "os.mkfifo('t/pipe')",
        NULL);
    CHECK_DONE(box_files_pack(f, "t", &sink, &e));
    CHECK_INT(archive.len % TAR_BLOCK, 0);
    CHECK_CELL(s, 0, "os.unlink('t/pipe')", NULL); /* not part of archives */
    CHECK_DONE(fixture_unpack(f, "u", &archive, &e));
    CHECK_CELL(s, 0, survey, "14");
    /* And as another program sees it. */
    CHECK_DONE(box_files_mkdir(f, "other", 0, false, &e));
    struct fixture_bytes bytes = {.data = archive.data, .left = archive.len};
    struct box_files_write w = {.source = fixture_from(&bytes)};
    CHECK_DONE(box_files_write(f, "other.tar", &w, &e));
    CHECK_CELL(s, 0,
               "import tarfile\nt = tarfile.open('other.tar', errors='surrogateescape')\n"
               "t.extractall('other'); survey('t') == survey('other')",
               "True");
}

TEST(archives_of_other_programs_are_understood)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    struct err e = {0};

    CHECK_CELL(
        s, 0,
        "import os, tarfile\nos.makedirs('t/' + 'n' * 120)\n"
        "open('t/' + 'n' * 120 + '/' + 'm' * 120, 'w').write('long')\n"
        "open('t/f', 'w').write('short'); os.link('t/f', 't/hard'); os.symlink('f', 't/soft')\n"
        "os.chmod('t/f', 0o6755)\n"
        "for name, fmt in (('gnu', tarfile.GNU_FORMAT), ('pax', tarfile.PAX_FORMAT)):\n"
        "    with tarfile.open(name + '.tar', 'w', format=fmt) as t:\n"
        "        t.add('t', '.')",
        NULL);
    for (int i = 0; i < 2; i++) {
        AUTO_BUF struct buf archive = BUF_INIT(0);
        CHECK_DONE(fixture_read(f, i == 0 ? "gnu.tar" : "pax.tar", false, &archive, &e));
        CHECK_DONE(fixture_unpack(f, i == 0 ? "gnu" : "pax", &archive, &e));
    }
    CHECK_CELL(
        s, 0,
        "[[open(d + '/' + 'n' * 120 + '/' + 'm' * 120).read(), open(d + '/hard').read(), "
        "os.readlink(d + '/soft'), os.stat(d + '/f').st_nlink, oct(os.stat(d + '/f').st_mode)] "
        "for d in ('gnu', 'pax')]",
        "[['long', 'short', 'f', 2, '0o100755'], ['long', 'short', 'f', 2, '0o100755']]");
}

/* A cell that makes bad.tar of one entry after a good one. */
static void check_archive(struct husk_session *s, struct box_files *f, const char *make,
                          const char *want)
{
    AUTO_BUF struct buf archive = BUF_INIT(0);
    char code[2048];
    struct err e = {0};

    CASE("%s", make);
    CHECK_INT(str_format(code, sizeof(code),
                         "import io, os, shutil, tarfile\nshutil.rmtree('u', True)\n"
                         "t = tarfile.open('bad.tar', 'w', format=tarfile.GNU_FORMAT)\n"
                         "def add(name, kind=tarfile.REGTYPE, link='', data=b'', mode=0o644):\n"
                         "    i = tarfile.TarInfo(name); i.type = kind; i.linkname = link\n"
                         "    i.size = len(data); i.mode = mode; t.addfile(i, io.BytesIO(data))\n"
                         "add('good', data=b'good')\n%s\nt.close()",
                         make),
              0);
    CHECK_CELL(s, 0, code, NULL);
    CHECK_DONE(fixture_read(f, "bad.tar", false, &archive, &e));
    int r = fixture_unpack(f, "u", &archive, &e);
    CHECK_STR(files_msg_status_name(box_files_status(f)), want);
    CHECK_INT(r, str_eq(want, "ok") ? 0 : -1);
    CHECK(box_files_is_usable(f));
    CHECK_CELL(s, 0,
               "[open('u/good').read(), os.path.lexists('escaped'), os.path.exists('/tmp/x')]",
               "['good', False, False]");
}

TEST(what_no_archive_may_hold_ends_it_with_the_entrys_name)
{
    static const struct {
        const char *make, *want;
    } rows[] = {
        {"add('/tmp/x', data=b'x')", "invalid_archive"},
        {"add('../escaped', data=b'x')", "invalid_archive"},
        {"add('a/../../escaped', data=b'x')", "invalid_archive"},
        {"add('dev', tarfile.CHRTYPE)", "invalid_archive"},
        {"add('dev', tarfile.BLKTYPE)", "invalid_archive"},
        {"add('pipe', tarfile.FIFOTYPE)", "invalid_archive"},
        {"add('l', tarfile.SYMTYPE, '/tmp')", "invalid_archive"},
        {"add('l', tarfile.SYMTYPE, '..')", "invalid_archive"},
        {"add('d/l', tarfile.SYMTYPE, '../../escaped')", "invalid_archive"},
        {"add('l', tarfile.LNKTYPE, '../bad.tar')", "invalid_archive"},
        {"add('l', tarfile.LNKTYPE, '/etc/passwd')", "invalid_archive"},
        {"add('l', tarfile.LNKTYPE, 'missing')", "not_found"},
        /* A link of the archive's own is not followed by what comes after it. */
        {"add('d', tarfile.DIRTYPE, mode=0o755); add('l', tarfile.SYMTYPE, 'd'); "
         "add('l/x', data=b'x')",
         "not_a_directory"},
        {"add('d', tarfile.DIRTYPE, mode=0o755); add('d', data=b'x')", "is_a_directory"},
        {"add('good/x', data=b'x')", "not_a_directory"},
        {"add('d/l', tarfile.SYMTYPE, '../good')", "ok"},
        {"add('good', data=b'good')", "ok"},
        {"add('./d/', tarfile.DIRTYPE, mode=0)", "ok"},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check_archive(s, f, rows[i].make, rows[i].want);
    }
}

TEST(an_archive_has_at_most_as_many_entries_as_were_allowed)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    AUTO_BUF struct buf archive = BUF_INIT(FIXTURE_CONTENT_MAX);
    struct err e = {0};

    for (int i = 0; i < 10; i++) {
        char name[8];
        CHECK_INT(str_format(name, sizeof(name), "n%d", i), 0);
        struct tar_entry entry = {.kind = TAR_FILE, .name = name, .link = "", .mode = 0600};
        CHECK_INT(tar_put_header(&archive, &entry), 0);
    }
    CHECK_INT(tar_put_end(&archive), 0);
    struct fixture_bytes bytes = {.data = archive.data, .left = archive.len, .portion = 100};
    struct box_files_unpack u = {.source = fixture_from(&bytes), .limit = 9};
    CHECK_FAILS(f, box_files_unpack(f, "u", &u, &e), "too_large");
    CHECK_INT(u.entries, 9);
    CHECK_HAS(e.msg, "n9");
    CHECK_CELL(s, 0, "import os; len(os.listdir('u'))", "9");
}
