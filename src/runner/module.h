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

PyObject *module_errno(int r); /* raises OSError for -errno */

/* module_frames.c */
int module_wait(struct buf **ret_body,
                struct fd_set_msg *fds); /* 1 frame, 0 end, -errno, -1 with an exception set */
PyObject *
module_fields(const struct buf *body); /* list of (key, bytes); files are written and left out */
PyObject *husk_recv(PyObject *self, PyObject *args);
PyObject *husk_done(PyObject *self, PyObject *args);
PyObject *husk_send_file(PyObject *self, PyObject *args);

/* module_display.c: one run at a time may speak, from its RUN frame to its DONE frame */
void module_run_begin(const struct buf *body);
bool module_run_is_open(void); /* and this is the process that was asked */
void module_run_end(void);
PyObject *husk_display(PyObject *self, PyObject *args);

/* module_box.c */
int module_ready(void); /* says READY; 0 or -errno */
int module_mute(
    int saved[3]); /* stdio to /dev/null; keeps the old ones if saved is not NULL. 0 or -errno */
int module_unmute(int saved[3]);
void module_seed_libc(void);
PyObject *husk_ready(PyObject *self, PyObject *args);
PyObject *husk_mute(PyObject *self, PyObject *args);
PyObject *husk_seed_libc(PyObject *self, PyObject *args);

/* module_once.c */
PyObject *husk_prepare(PyObject *self, PyObject *args);
PyObject *husk_rehearse(PyObject *self, PyObject *args);
PyObject *husk_zygote(PyObject *self, PyObject *args);
