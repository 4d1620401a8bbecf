/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the _husk extension share. Include it after Python.h's PY_SSIZE_T_CLEAN. */
#pragma once

#include <Python.h>

#include <stdbool.h>

#include "base/buf.h"
#include "base/fd.h"
#include "wire/frame.h"

/* Head of the run that is being served: its token goes into every answer. */
extern struct frame_head module_run;

/* What is left for Python to do. Known to runner.py, but for the last one. */
enum rest { REST_ALL = 0, REST_VALUE = 1, REST_ERROR = 2, REST_SESSION = 3, REST_NOTHING = 4 };

PyObject *module_errno(int r); /* raises OSError for -errno */

/* module_frames.c */
/*
 * Puts the descriptors of a frame where they belong; a control socket is returned, else -1 or
 * -errno.
 */
int module_place_fds(const struct frame_head *head, struct fd_set_msg *fds);
/* 1 frame, 0 end, -errno, -1 with an exception set. */
int module_wait(struct buf **ret_body, struct fd_set_msg *fds);
/*
 * What Python has to do: (rest, what or None, fields), the last a list of (key, bytes). Files are
 * written and left out. what may be NULL and is taken.
 */
PyObject *module_hand_over(enum rest rest, PyObject *what, const struct buf *body);
/* Sleeps until the launcher ends the box: a sleeping process's CPU time is fully counted. */
void module_wait_for_end(void);
PyObject *husk_wait_for_end(PyObject *self, PyObject *args);
PyObject *husk_done(PyObject *self, PyObject *args);
PyObject *husk_send_file(PyObject *self, PyObject *args);

/* module_display.c: one run at a time may answer, from its RUN frame to its DONE frame */
void module_run_begin(const struct buf *body);
bool module_run_is_open(void); /* and this process, not a fork of it, serves the run */
void module_run_end(void);
PyObject *husk_run_is_open(PyObject *self, PyObject *args);
PyObject *husk_display(PyObject *self, PyObject *args);

/* module_box.c */
int module_ready(void); /* sends READY; 0 or -errno */
/* stdio to /dev/null; keeps the old ones if saved is not NULL. 0 or -errno. */
int module_mute(int saved[3]);
int module_unmute(int saved[3]);
void module_seed_libc(void);
PyObject *husk_ready(PyObject *self, PyObject *args);
PyObject *husk_mute(PyObject *self, PyObject *args);
PyObject *husk_seed_libc(PyObject *self, PyObject *args);

/* module_branch.c */
PyObject *husk_branch(PyObject *self, PyObject *args);

/* module_immortal.c */
PyObject *husk_make_immortal(PyObject *self, PyObject *args);

/* module_plain.c: code that needs no Python of ours around it */

struct plain {
    const char *code; /* NUL-terminated; owned */
    const char *name;
    int kind;     /* enum frame_kind */
    bool checked; /* against the rules of /run */
    bool print;   /* the value of a last expression */
};

/* False: the request contains something that only Python can apply. Release *ret in any case. */
bool plain_read(const struct buf *body, struct plain *ret);
void plain_release(struct plain *p);
void plain_rename(struct plain *p, const char *name);
/*
 * Runs it. VALUE, ERROR: *ret is the value or the exception, a new reference. ALL: nothing has run.
 */
enum rest plain_run(const struct plain *p, PyObject *space, PyObject **ret);
PyObject *plain_take_exception(void); /* the one that is set */
void plain_flush(void);               /* stdout and stderr */
int plain_done(void);                 /* sends DONE with exit code 0; 0 or -errno */

/* module_finalise.c */
/*
 * Flushes files and calls __del__ of what a program leaves there, as the end of an interpreter
 * does.
 */
void module_finalise(PyObject *space);
/* Flushes every file that was made since memory was frozen, wherever it is held. */
void module_flush_files(void);
bool module_finalise_prepare(void); /* before memory is frozen; false with an exception set */
/* How many names and modules there are: without a new one no file can have been left there. */
Py_ssize_t module_count_names(PyObject *space);
PyObject *husk_finalise(PyObject *self, PyObject *space);
PyObject *husk_flush_files(PyObject *self, PyObject *args);

/* module_source.c: what linecache shows */
#define SOURCE_NAME "<cell>" /* of code without a name; cells of a session are numbered */
#define SOURCE_NAME_MAX 24
void source_running(const struct plain *p); /* borrowed until the next one, or source_keep() */
void source_next_cell(void);
void source_cell_name(char name[SOURCE_NAME_MAX]);
void source_keep(struct plain *p); /* a cell that has run; taken */
PyObject *husk_source(PyObject *self, PyObject *args);
PyObject *husk_cell_name(PyObject *self, PyObject *args);

/* module_cell.c */
PyObject *husk_cell(PyObject *self, PyObject *args);

/* module_once.c */
PyObject *module_space(void);                   /* globals of the code that runs; borrowed */
bool module_may_break_a_rule(const char *code); /* policy.py has to check it */
PyObject *husk_prepare(PyObject *self, PyObject *args);
PyObject *husk_rehearse(PyObject *self, PyObject *args);
PyObject *husk_zygote(PyObject *self, PyObject *args);

/* module_output.c: what is printed is in the pipe when the call returns */
PyObject *output_writer_type(void); /* a new reference, NULL with an exception set */
PyObject *husk_unbuffer(PyObject *self, PyObject *args);
