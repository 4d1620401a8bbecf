/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of file work; see files_msg.h. The parsing half reads hostile bytes. */
#include "wire/files_msg.h"

#include <errno.h>
#include <string.h>

#define PERMISSIONS 0777

bool files_msg_path_ok(const char *path, size_t len, bool empty_is_fine)
{
    if (len == 0) {
        return empty_is_fine;
    }
    if (len > FILES_PATH_MAX || memchr(path, '\0', len) != NULL) {
        return false;
    }
    for (size_t at = 0; at <= len;) {
        const char *slash = at < len ? memchr(path + at, '/', len - at) : NULL;
        size_t n = slash != NULL ? (size_t)(slash - path) - at : len - at;
        bool dots = n <= 2 && memcmp(path + at, "..", n) == 0; /* "", "." and ".." */
        if (dots || n > FILES_NAME_MAX) {
            return false;
        }
        at += n + 1;
    }
    return true;
}

int files_msg_put(struct buf *b, enum files_type type, const void *body, size_t len)
{
    struct files_head head = {.type = type, .len = (uint32_t)len};

    if (len > FILES_BODY_MAX) {
        return -EMSGSIZE;
    }
    b->len = 0;
    int r = buf_reserve(b, sizeof(head) + len);
    if (r < 0) {
        return r;
    }
    (void)buf_add(b, &head, sizeof(head));
    return buf_add(b, body, len);
}

/* Appends to the message in b and corrects its length. */
static int extend(struct buf *b, const void *data, size_t len)
{
    struct files_head head;

    memcpy(&head, b->data, sizeof(head));
    if (len > FILES_BODY_MAX - head.len) {
        return -EMSGSIZE;
    }
    int r = buf_add(b, data, len);
    if (r < 0) {
        return r;
    }
    head.len += (uint32_t)len;
    memcpy(b->data, &head, sizeof(head));
    return 0;
}

int files_msg_put_req(struct buf *b, enum files_type type, const struct files_req *req,
                      const char *path, const char *to)
{
    struct files_req full = *req;

    full.path_len = (uint32_t)strlen(path);
    full.to_len = to != NULL ? (uint32_t)strlen(to) : 0;
    int r = files_msg_put(b, type, &full, sizeof(full));
    if (r == 0) {
        r = extend(b, path, full.path_len);
    }
    if (r == 0 && to != NULL) {
        r = extend(b, to, full.to_len);
    }
    return r;
}

int files_msg_put_done(struct buf *b, const struct files_done *done, const char *text)
{
    struct files_done full = *done;

    full.text_len = (uint32_t)strlen(text);
    int r = files_msg_put(b, FILES_DONE, &full, sizeof(full));
    return r < 0 ? r : extend(b, text, full.text_len);
}

int files_msg_put_entry(struct buf *b, const struct files_info *info, const char *name,
                        const char *target)
{
    size_t len = strlen(name);
    size_t target_len = strlen(target);
    struct files_entry entry = {
        .info = *info, .name_len = (uint32_t)len, .target_len = (uint32_t)target_len};
    size_t body = b->len - sizeof(struct files_head);

    if (len > FILES_PATH_MAX || target_len > FILES_PATH_MAX ||
        sizeof(entry) + len + target_len > FILES_BODY_MAX - body) {
        return -EMSGSIZE;
    }
    int r = extend(b, &entry, sizeof(entry));
    if (r == 0) {
        r = extend(b, name, len);
    }
    return r < 0 ? r : extend(b, target, target_len);
}

int files_msg_put_info(struct buf *b, const struct files_info *info, const char *target)
{
    int r = files_msg_put(b, FILES_INFO, info, sizeof(*info));

    return r < 0 ? r : extend(b, target, strlen(target));
}

int files_msg_get_head(const void *data, bool from_box, struct files_head *ret)
{
    struct files_head head;

    memcpy(&head, data, sizeof(head));
    bool known =
        from_box ? head.type == FILES_DATA || (head.type >= FILES_READY && head.type <= FILES_DONE)
                 : head.type >= FILES_LIST && head.type <= FILES_ABORT;
    bool has_body = head.type != FILES_END && head.type != FILES_ABORT &&
                    head.type != FILES_READY && head.type != FILES_TICK;
    if (!known || head.len > FILES_BODY_MAX || has_body != (head.len > 0)) {
        return -EBADMSG;
    }
    *ret = head;
    return 0;
}

/* Which requests may be about the workspace itself. */
static bool takes_root(uint32_t type)
{
    return type == FILES_LIST || type == FILES_STAT || type == FILES_PACK || type == FILES_UNPACK;
}

int files_msg_get_req(const struct files_head *head, const char *body, struct files_req *ret,
                      char path[FILES_PATH_MAX + 1], char to[FILES_PATH_MAX + 1])
{
    struct files_req req;

    if (head->type < FILES_LIST || head->type > FILES_UNPACK || head->len < sizeof(req)) {
        return -EBADMSG;
    }
    memcpy(&req, body, sizeof(req));
    const char *names = body + sizeof(req);
    bool moves = head->type == FILES_MOVE;
    if (req.path_len > FILES_PATH_MAX || req.to_len > FILES_PATH_MAX ||
        head->len != sizeof(req) + req.path_len + req.to_len || moves != (req.to_len > 0)) {
        return -EBADMSG;
    }
    if ((req.flags & ~(uint32_t)FILES_FLAGS) != 0 || (req.mode & ~(uint32_t)PERMISSIONS) != 0 ||
        !files_msg_path_ok(names, req.path_len, takes_root(head->type)) ||
        !files_msg_path_ok(names + req.path_len, req.to_len, !moves)) {
        return -EBADMSG;
    }
    memcpy(path, names, req.path_len);
    path[req.path_len] = '\0';
    memcpy(to, names + req.path_len, req.to_len);
    to[req.to_len] = '\0';
    *ret = req;
    return 0;
}

static bool info_ok(const struct files_info *info)
{
    return info->kind >= FILES_FILE && info->kind <= FILES_OTHER &&
           (info->mode & ~(uint32_t)PERMISSIONS) == 0 && info->size <= INT64_MAX;
}

/* Only links lead anywhere. */
static bool target_ok(const struct files_info *info, const char *target, size_t len)
{
    return len == 0 ||
           (info->kind == FILES_LINK && len <= FILES_PATH_MAX && memchr(target, '\0', len) == NULL);
}

int files_msg_get_info(const char *body, size_t len, struct files_info *ret,
                       char target[FILES_PATH_MAX + 1])
{
    struct files_info info;

    if (len < sizeof(info)) {
        return -EBADMSG;
    }
    memcpy(&info, body, sizeof(info));
    const char *said = body + sizeof(info);
    size_t n = len - sizeof(info);
    if (!info_ok(&info) || !target_ok(&info, said, n)) {
        return -EBADMSG;
    }
    if (target != NULL) {
        memcpy(target, said, n);
        target[n] = '\0';
    }
    *ret = info;
    return 0;
}

int files_msg_get_entry(const char *body, size_t len, size_t *at, struct files_entry *ret,
                        const char **ret_name)
{
    struct files_entry entry;

    if (*at == len) {
        return 0;
    }
    if (*at > len || len - *at < sizeof(entry)) {
        return -EBADMSG;
    }
    memcpy(&entry, body + *at, sizeof(entry));
    const char *name = body + *at + sizeof(entry);
    size_t left = len - *at - sizeof(entry);
    if (entry.name_len > left || entry.target_len > left - entry.name_len ||
        !info_ok(&entry.info) || !files_msg_path_ok(name, entry.name_len, false) ||
        !target_ok(&entry.info, name + entry.name_len, entry.target_len)) {
        return -EBADMSG;
    }
    *at += sizeof(entry) + entry.name_len + entry.target_len;
    *ret = entry;
    *ret_name = name;
    return 1;
}

int files_msg_get_done(const char *body, size_t len, struct files_done *ret, const char **ret_text)
{
    struct files_done done;

    if (len < sizeof(done)) {
        return -EBADMSG;
    }
    memcpy(&done, body, sizeof(done));
    if (done.status >= FILES_STATUSES || done.sys_errno < 0 || done.sys_errno > 4095 ||
        done.more > 1 || done.text_len > FILES_PATH_MAX ||
        len != sizeof(done) + (size_t)done.text_len) {
        return -EBADMSG;
    }
    *ret = done;
    *ret_text = body + sizeof(done);
    return 0;
}

enum files_status files_msg_status_of(int sys_errno)
{
    switch (sys_errno) {
    case 0:
        return FILES_OK;
    case ENOENT:
        return FILES_NOT_FOUND;
    case EEXIST:
        return FILES_EXISTS;
    case ENOTDIR:
        return FILES_NOT_A_DIRECTORY;
    case EISDIR:
        return FILES_IS_A_DIRECTORY;
    case ENOTEMPTY:
        return FILES_NOT_EMPTY;
    case ENOSPC:
    case EDQUOT:
        return FILES_NO_SPACE;
    case EFBIG:
    case EOVERFLOW:
    case E2BIG:
    case EMFILE: /* the depth of directories is what takes descriptors */
        return FILES_TOO_LARGE;
    case EACCES:
    case EPERM:
    case EROFS:
    case EXDEV: /* openat2(): the path leads out, */
    case ELOOP: /* or has a link where none may be */
    case ENXIO:
    case EAGAIN:
    case EBUSY:
    case ETXTBSY:
        return FILES_DENIED;
    case ENAMETOOLONG:
    case EINVAL:
        return FILES_INVALID_PATH;
    case EBADMSG:
        return FILES_INVALID_ARCHIVE;
    case ESTALE:
        return FILES_CHANGED;
    case ECANCELED:
        return FILES_ABORTED;
    default:
        return FILES_FAILED;
    }
}

const char *files_msg_status_name(enum files_status status)
{
    static const char *const names[] = {
        [FILES_OK] = "ok",
        [FILES_NOT_FOUND] = "not_found",
        [FILES_EXISTS] = "exists",
        [FILES_NOT_A_DIRECTORY] = "not_a_directory",
        [FILES_IS_A_DIRECTORY] = "is_a_directory",
        [FILES_NOT_EMPTY] = "not_empty",
        [FILES_NO_SPACE] = "no_space",
        [FILES_TOO_LARGE] = "too_large",
        [FILES_DENIED] = "denied",
        [FILES_INVALID_PATH] = "invalid_path",
        [FILES_INVALID_ARCHIVE] = "invalid_archive",
        [FILES_CHANGED] = "changed",
        [FILES_ABORTED] = "aborted",
        [FILES_FAILED] = "failed",
        [FILES_LOST] = "worker_lost",
        [FILES_TIMEOUT] = "timeout",
        [FILES_PROTOCOL] = "protocol_violation",
    };

    return (size_t)status < ARRAY_LEN(names) ? names[status] : "unknown";
}
