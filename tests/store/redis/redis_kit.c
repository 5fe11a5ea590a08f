/* See redis_kit.h. */
#include "redis_kit.h"

#include "base/seam.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUSY_MS = 3000, ANSWER_MS = 20000 };

semel_status redis_case_connect(redis_store **out, redis_case *c, const char *url)
{
    redis_store *store = calloc(1, sizeof *store);
    if (!store)
        abort();
    semel_status status =
        redis_keyed_driver.open(store, url ? url : c->url, &c->settings, &last_error);
    if (status)
        free(store);
    else
        *out = store;
    return status;
}

void redis_case_disconnect(redis_store *store)
{
    redis_keyed_driver.close(store);
    free(store);
}

void redis_case_open(redis_case *c, const server_place *at)
{
    *c = (redis_case){0};
    if (at)
        c->server = *at;
    else
        server_find(&c->server, SERVER_REDIS);
    seam_complete(&c->seam, NULL);
    c->settings =
        (semel_store_settings){.busy_ms = BUSY_MS, .answer_ms = ANSWER_MS, .seam = &c->seam};
    server_fresh(c->url, &c->server);
    OK(redis_case_connect(&c->store, c, NULL));
}

void redis_case_close(redis_case *c)
{
    redis_case_disconnect(c->store);
    server_drop(c->url);
}

char *redis_case_url(char out[SERVER_URL_ROOM], const redis_case *c, const char *more)
{
    (void)snprintf(out, SERVER_URL_ROOM, "%s%s", c->url, more);
    return out;
}

semel_status redis_case_write(redis_store *store, const char *key)
{
    semel_keyed_change change = change_text("m/1", key, "value");
    return redis_keyed_driver.apply(store, &change, 1, SEMEL_BEGIN_DURABLE, NULL, NULL,
                                    &last_error);
}

static semel_status keep_version(const semel_keyed_record *record, void *context, semel_error *err)
{
    (void)err;
    memcpy(context, record->version, SEMEL_KEYED_VERSION_LEN);
    return SEMEL_OK;
}

semel_status redis_case_remove(redis_store *store, const char *key)
{
    unsigned char version[SEMEL_KEYED_VERSION_LEN] = {0};
    semel_bytes one = bytes_of(key);
    OK(redis_keyed_driver.get(store, BYTES("m/1"), &one, 1, 0, keep_version, version, &last_error));
    semel_keyed_change change =
        change_if_version(change_kind(change_text("m/1", key, ""), SEMEL_KEYED_REMOVE), version);
    return redis_keyed_driver.apply(store, &change, 1, SEMEL_BEGIN_DURABLE, NULL, NULL,
                                    &last_error);
}

static semel_status count_row(const semel_keyed_record *record, void *context, semel_error *err)
{
    (void)record, (void)err;
    ++*(int *)context;
    return SEMEL_OK;
}

int redis_case_has(redis_store *store, const char *key)
{
    int found = 0;
    semel_bytes one = bytes_of(key);
    OK(redis_keyed_driver.get(store, BYTES("m/1"), &one, 1, 0, count_row, &found, &last_error));
    return found;
}
