/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes two requests the same one: SHA-256 over the operation, its path parameters and the
 * body in a canonical form (names sorted, no blanks, defaults filled in). See call.h.
 */
#include <string.h>

#include "api/call/call_impl.h"
#include "base/log.h"

static int feed(const char *data, size_t n, void *user)
{
    return EVP_DigestUpdate(user, data, n) == 1 ? 0 : -1;
}

static bool feed_json(EVP_MD_CTX *digest, const json_t *value)
{
    return json_dump_callback(value, feed, digest,
                              JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) == 0;
}

void call_make_hash(struct api_call *call)
{
    const struct api_op_info *info = call->info;
    EVP_MD_CTX *digest = call->api->digest;
    unsigned len = 0;

    /* Each part ends with a NUL, which none of them holds: else their borders could be moved. */
    bool ok = EVP_DigestInit_ex2(digest, call->api->sha256, NULL) == 1 &&
              feed(info->id, strlen(info->id) + 1, digest) == 0;
    for (unsigned i = 0; i < info->n_path; i++) {
        const json_t *value = json_object_get(call->params, info->path[i].name);
        ok = ok && (value == NULL || feed_json(digest, value)) && feed("", 1, digest) == 0;
    }
    ok = ok && (call->body == NULL || feed_json(digest, call->body)) &&
         EVP_DigestFinal_ex(digest, call->hash, &len) == 1;
    if (!ok) {
        /*
         * A hash that nothing else has: a repetition is then refused instead of mixed up with
         * another request.
         */
        log_error("api_hash", "request_id=%s", call->request_id);
        memset(call->hash, 0, sizeof(call->hash));
        memcpy(call->hash, call->request_id, sizeof(call->request_id));
    }
    call->has_hash = true;
}

const void *call_body_hash(const struct api_call *call)
{
    if (!call->has_hash) {
        /* Handlers hold calls as const where they only read; this one is filled on first use. */
        call_make_hash((struct api_call *)call);
    }
    return call->hash;
}
