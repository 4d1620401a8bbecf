/* SPDX-License-Identifier: Apache-2.0 */
/* Files as answers: conditions, one range, and sendfile(). See request.h. */
#include <inttypes.h>
#include <string.h>

#include "base/fd.h"
#include "http/conn.h"
#include "http/date.h"
#include "http/disposition.h"
#include "http/range.h"
#include "http/status.h"

static struct http_selection choose(const struct http_request *req, const struct http_file *file,
                                    const char *etag)
{
    const struct http_conditions conditions = {
        .if_match = http_header(req, "If-Match"),
        .if_none_match = http_header(req, "If-None-Match"),
        .if_modified_since = http_header(req, "If-Modified-Since"),
        .if_unmodified_since = http_header(req, "If-Unmodified-Since"),
        .if_range = http_header(req, "If-Range"),
        .range = http_method(req) == HTTP_GET ? http_header(req, "Range") : NULL,
    };

    return http_select(&conditions, file->size, etag, file->mtime.tv_sec);
}

static void add_name(struct http_request *req, const char *name)
{
    char value[HTTP_DISPOSITION_MAX];

    http_disposition(value, name, false);
    http_add_header(req, "Content-Disposition", value);
}

static void add_fields(struct http_request *req, const struct http_file *file, const char *etag,
                       const struct http_selection *part)
{
    char date[HTTP_DATE_SIZE];

    http_add_header(req, "ETag", etag);
    http_add_header(req, "Accept-Ranges", "bytes");
    http_date_format(file->mtime.tv_sec, date);
    http_add_header(req, "Last-Modified", date);
    if (part->status == 206) {
        http_add_headerf(req, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
                         part->first, part->first + part->length - 1, file->size);
    } else if (part->status == 416) {
        http_add_headerf(req, "Content-Range", "bytes */%" PRIu64, file->size);
    }
    if (file->name != NULL && part->length > 0) {
        add_name(req, file->name);
    }
}

void http_reply_file(struct http_request *req, const struct http_file *file)
{
    AUTO_CLOSE int fd = file->fd;
    struct http_conn *c = req->conn;
    char etag[HTTP_ETAG_SIZE];

    if (!http_reply_may_start(req)) {
        return;
    }
    http_etag(file->size, file->mtime, file->inode, etag);
    struct http_selection part = choose(req, file, etag);
    add_fields(req, file, etag, &part);
    if (part.status == 412 || part.status == 416) {
        http_reply_error(req, part.status, http_reason(part.status));
        return;
    }
    const char *type = file->type != NULL ? file->type : "application/octet-stream";
    if (http_reply_head(req, part.status, part.status == 304 ? NULL : type, part.length) == 0 &&
        !req->has_no_body) {
        if (http_out_file(&c->out, take_fd(&fd), part.first, part.length) < 0) {
            http_conn_doom(c);
        }
    }
    req->reply = REPLY_DONE;
}
