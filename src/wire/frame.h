/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames between the user of a box and the runner inside it, over a stream socket.
 *
 * A frame is a head and a list of fields (key, length, bytes). Descriptors are only sent into a
 * box, attached to a head, and never accepted from one. Every frame from a box repeats the token of
 * the run that it belongs to: a frame with another token ends the box. All that a box sends is a
 * claim by hostile code and goes through frame_parse_head() and frame_next().
 *
 * Little-endian hosts only; both ends are always on one machine.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define FRAME_TOKEN_SIZE 16
#define FRAME_CODE_MAX ((size_t)4 << 20)      /* a million characters, whatever they are */
#define FRAME_TO_BOX_MAX ((size_t)256 << 20)  /* code, stdin is a pipe, files */
#define FRAME_FROM_BOX_MAX ((size_t)24 << 20) /* value, error, one file, one display */

/* The runner obeys these limits, so a frame beyond them is not the runner's. */
#define FRAME_DISPLAYS_MAX 64                      /* per run */
#define FRAME_DISPLAY_BYTES_MAX ((size_t)16 << 20) /* all data of a run's displays */
#define FRAME_FORMS_MAX 32                         /* of one display */
#define FRAME_MIME_MAX 100
#define FRAME_VALUE_MAX ((size_t)1 << 20) /* of KEY_VALUE; a longer one is cut */
#define FRAME_VARIABLES_MAX ((size_t)1 << 20)
#define FRAME_ARTIFACTS_MAX ((size_t)256 << 10)

enum frame_type {
    /* into the box */
    FRAME_RUN = 1, /* run this; descriptors, when there are any, become stdin, stdout, stderr */
    FRAME_CONTEXT, /* session: fork a context whose control socket is the descriptor */
    FRAME_BRANCH,  /* context: fork a copy of yourself that listens on the descriptor */
    /*
     * session: send this signal to this process of the box; 0: it is a context. SIGINT is for the
     * run of the token alone, or for any if that is empty
     */
    FRAME_SIGNAL,
    FRAME_FILES, /* session: fork a file worker that serves the descriptor (wire/files_msg.h) */
    FRAME_SWEEP, /* session: kill processes that were started since, but no context */
    /*
     * context: answered with PONG, in its place among the frames of runs. session: say once more
     * how this context ended, if it has
     */
    FRAME_PING,
    /* out of the box */
    FRAME_READY = 16, /* isolated, warmed, waiting */
    FRAME_FAILED,     /* a set-up step failed; the process is gone */
    FRAME_DISPLAY,    /* rich output */
    FRAME_FILE,       /* one of the requested files */
    FRAME_DONE,       /* the run is over */
    FRAME_EXITED,     /* session: a context is gone, or could not be forked */
    FRAME_SWEPT,      /* session: nothing is left of what FRAME_SWEEP was about */
    FRAME_SIGNALLED,  /* session: whether a FRAME_SIGNAL with an ORDER has hit its run */
    FRAME_PONG,       /* context: everything that came before the PING of this token is done */
};
#define FRAME_LAST FRAME_PONG

enum frame_key {
    KEY_CODE = 1,
    KEY_NAME,
    KEY_KIND, /* one byte: enum frame_kind */
    KEY_ARG,  /* repeated */
    KEY_ENV,  /* repeated, NAME=value */
    KEY_PUT,  /* repeated: name, NUL, content */
    KEY_GET,  /* repeated: name */
    KEY_EVENT,
    KEY_CONTEXT,
    KEY_TIMEOUT_MS, /* u64 */
    KEY_PID,        /* u32 */
    KEY_SIGNAL,     /* u32 */
    KEY_EXIT,       /* u32: exit code, or wait status in EXITED */
    KEY_VALUE,
    KEY_VALUE_JSON,
    KEY_ERROR_TYPE,
    KEY_ERROR_MESSAGE,
    KEY_TRACEBACK,
    KEY_MIME, /* in DISPLAY: each followed by its DATA */
    KEY_DATA,
    KEY_SEQ,       /* u32: DISPLAY frames of this run that came before */
    KEY_DROPPED,   /* empty: displays (in DISPLAY), variables (in DONE) that went over a limit */
    KEY_RICH,      /* empty: displays are wanted */
    KEY_PRINT,     /* empty: print the value of the last expression */
    KEY_POLICY,    /* one byte: enum frame_policy */
    KEY_VARIABLE,  /* repeated: name of a global whose value is wanted */
    KEY_VARIABLES, /* their values as one JSON object */
    KEY_ARTIFACTS, /* in RUN, empty: wanted; in DONE: names of changed files, as a JSON array */
    KEY_SINCE,     /* u64: nanoseconds since boot */
    KEY_ORDER,     /* u64: of a SWEEP or SIGNAL, repeated in the answer */
    KEY_HANDLER,   /* name of the function to call; absent: handler */
};

enum frame_policy { FRAME_POLICY_PYRUNNER = 1 };

enum frame_kind { FRAME_SCRIPT = 0, FRAME_CELL = 1, FRAME_HANDLER = 2 };

struct frame_head {
    uint32_t type;
    uint32_t len; /* bytes of fields that follow */
    uint8_t token[FRAME_TOKEN_SIZE];
};

struct frame_field {
    uint32_t key;
    uint32_t len;
    const char *data; /* borrowed from the frame */
};

/* Building: begin, add fields, end. Each returns 0 or -errno. */
int frame_begin(struct buf *b, enum frame_type type, const uint8_t token[FRAME_TOKEN_SIZE]);
int frame_add(struct buf *b, enum frame_key key, const void *data, size_t n);
int frame_add_str(struct buf *b, enum frame_key key, const char *s);
int frame_add_u32(struct buf *b, enum frame_key key, uint32_t v);
int frame_add_u64(struct buf *b, enum frame_key key, uint64_t v);
int frame_end(struct buf *b);

/*
 * Reads a head from untrusted bytes: 1 and *ret, 0 when more bytes are needed, -EBADMSG, -EMSGSIZE
 * above max.
 */
int frame_parse_head(const void *data, size_t n, size_t max, struct frame_head *ret);

/*
 * Walks the fields: 1 with *ret, 0 at the end, -EBADMSG. *at starts at 0 and is an offset into
 * body.
 */
int frame_next(const char *body, size_t len, size_t *at, struct frame_field *ret);

int frame_field_u32(const struct frame_field *f, uint32_t *ret); /* -EBADMSG: not four bytes */
int frame_field_u64(const struct frame_field *f, uint64_t *ret);
