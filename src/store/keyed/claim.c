/* What this process knows of its claims, by token. It saves `finish` a read: the unit that finishes
 * is another one than the unit that claimed, and the marker's fields are written whole. A claim
 * that is not known here is read from the database. */
#include "store/keyed/hold.h"

#include <string.h>

enum { BUCKETS = 1024, OVER_MS = 60000 };

static keyed_claim **bucket_of(const keyed_store *store, uint64_t token)
{
    return &store->claims[token % BUCKETS];
}

keyed_claim *keyed_claim_new(const semel_mark *mark, const keyed_marker *marker)
{
    keyed_claim *claim = mem_alloc(sizeof *claim + mark->key.len);
    if (!claim)
        return NULL;
    claim->inbox = mark->inbox;
    claim->marker = *marker;
    claim->marker.why = (semel_bytes){NULL, 0};
    claim->key_len = mark->key.len;
    memcpy(claim->key, mark->key.data, mark->key.len);
    return claim;
}

/* Claims that were abandoned are dropped when another one comes into their bucket. */
static void drop_old(keyed_claim **at, int64_t now_ms)
{
    while (*at) {
        keyed_claim *claim = *at;
        if (claim->until_ms + OVER_MS >= now_ms) {
            at = &claim->next;
            continue;
        }
        *at = claim->next;
        mem_free(claim);
    }
}

void keyed_claim_add(keyed_store *store, keyed_claim *claim, int64_t now_ms)
{
    pthread_mutex_lock(&store->lock);
    keyed_claim **bucket = bucket_of(store, claim->token);
    drop_old(bucket, now_ms);
    claim->next = *bucket;
    *bucket = claim;
    pthread_mutex_unlock(&store->lock);
}

static int is_of(const keyed_claim *claim, const semel_mark *mark)
{
    return claim->token == mark->token && claim->inbox == mark->inbox &&
           keyed_same((semel_bytes){claim->key, claim->key_len}, mark->key);
}

int keyed_claim_find(keyed_claim *out, keyed_store *store, const semel_mark *mark)
{
    pthread_mutex_lock(&store->lock);
    const keyed_claim *claim = *bucket_of(store, mark->token);
    while (claim && !is_of(claim, mark))
        claim = claim->next;
    if (claim)
        *out = *claim;
    pthread_mutex_unlock(&store->lock);
    return claim != NULL;
}

void keyed_claim_update(keyed_store *store, uint64_t token, int64_t until_ms)
{
    pthread_mutex_lock(&store->lock);
    keyed_claim **at = bucket_of(store, token);
    while (*at && (*at)->token != token)
        at = &(*at)->next;
    keyed_claim *claim = *at;
    if (claim && until_ms) {
        claim->until_ms = until_ms;
    } else if (claim) {
        *at = claim->next;
        mem_free(claim);
    }
    pthread_mutex_unlock(&store->lock);
}

int keyed_claims_new(keyed_store *store)
{
    store->claims = mem_alloc(BUCKETS * sizeof(keyed_claim *));
    return store->claims != NULL;
}

void keyed_claims_free(keyed_store *store)
{
    for (size_t i = 0; store->claims && i < BUCKETS; i++)
        while (store->claims[i]) {
            keyed_claim *claim = store->claims[i];
            store->claims[i] = claim->next;
            mem_free(claim);
        }
    mem_free(store->claims);
    store->claims = NULL;
}
