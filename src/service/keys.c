/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idempotency keys: what is made and the key that it is made by become durable together, so a
 * request that is repeated finds what the first one made.
 */
#include <string.h>

#include "service/service_impl.h"

struct store_batch *keyed_batch(struct service *svc, const struct request_key *asked,
                                const char *failed, const char *id, int64_t created_ms)
{
    struct store_batch *b = store_batch_new(svc->store);

    if (b != NULL && asked->key != NULL) {
        struct store_key key = {.scope = asked->scope, .key = asked->key};
        memcpy(key.hash, asked->hash, sizeof(key.hash));
        if (failed != NULL) {
            key.id = failed;
            store_free_key(b, &key);
        }
        key.id = id;
        key.created_ms = created_ms;
        store_claim_key(b, &key);
    }
    return b;
}

int keyed_commit(struct service *svc, struct store_batch *b, const struct request_key *asked,
                 char ret_id[ID_SIZE], struct err *e)
{
    struct store_result result;

    if (service_commit(svc, b, &result, e) == 0) {
        return 0;
    }
    if (result.outcome != STORE_KEY_TAKEN) {
        return -1;
    }
    if (memcmp(result.holder_hash, asked->hash, sizeof(asked->hash)) != 0) {
        return err_set(e, ERR_CONFLICT, "this Idempotency-Key was used with another request");
    }
    memcpy(ret_id, result.holder_id, sizeof(result.holder_id));
    return 1;
}
