/* See environment.h. */
#include "program/handler/environment.h"

#include "program/support/digest.h"
#include "program/support/show.h"
#include "program/trace/context.h"

#include <stdio.h>
#include <string.h>

typedef enum variable {
    VARIABLE_INBOX,
    VARIABLE_KEY,
    VARIABLE_IDEMPOTENCY_KEY,
    VARIABLE_MESSAGE_ID,
    VARIABLE_TYPE,
    VARIABLE_ATTEMPT,
    VARIABLE_TRACEPARENT,
    VARIABLES
} variable;

static const char *const names[VARIABLES] = {
    "SEMEL_INBOX", "SEMEL_KEY",     "SEMEL_IDEMPOTENCY_KEY", "SEMEL_MESSAGE_ID",
    "SEMEL_TYPE",  "SEMEL_ATTEMPT", "SEMEL_TRACEPARENT",
};

/* --- what all messages have in common --------------------------------------------------------- */

/* Is this item, NAME=VALUE, the variable of this name? */
static int item_is(const char *item, const char *name)
{
    size_t len = strlen(name);
    return strncmp(item, name, len) == 0 && item[len] == '=';
}

static int is_of_a_message(const char *item)
{
    for (size_t i = 0; i < VARIABLES; i++)
        if (item_is(item, names[i]))
            return 1;
    return 0;
}

static int is_configured(const char *item, const config_pairs *configured)
{
    for (size_t i = 0; i < configured->count; i++)
        if (item_is(item, configured->items[i].name))
            return 1;
    return 0;
}

semel_status environment_open(environment *out, char *const *own, const config_pairs *configured,
                              semel_error *err)
{
    environment all = {0};
    size_t most = configured->count;
    for (size_t i = 0; own[i]; i++)
        most++;
    all.items = region_alloc(&all.memory, (most + 1) * sizeof *all.items);
    for (size_t i = 0; own[i]; i++)
        if (!is_of_a_message(own[i]) && !is_configured(own[i], configured))
            all.items[all.count++] = region_copy(&all.memory, own[i], strlen(own[i]));
    for (size_t i = 0; i < configured->count; i++) {
        const config_pair *pair = &configured->items[i];
        if (!*pair->name || strchr(pair->name, '=')) {
            region_free(&all.memory);
            return semel_fail(err, SEMEL_EINVAL, "env: \"%s\" is not the name of a variable",
                              pair->name);
        }
        const char *item = region_printf(&all.memory, "%s=%s", pair->name, pair->value);
        if (!is_of_a_message(item))
            all.items[all.count++] = item;
    }
    *out = all;
    return SEMEL_OK;
}

void environment_close(environment *all)
{
    region_free(&all->memory);
    *all = (environment){0};
}

const char *environment_get(const environment *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++)
        if (item_is(all->items[i], name))
            return all->items[i] + strlen(name) + 1;
    return NULL;
}

/* --- of one message --------------------------------------------------------------------------- */

const char *environment_key(region *memory, semel_bytes key)
{
    if (key.len > SEMEL_KEY_MAX) {
        char digest[DIGEST_HEX_SIZE];
        digest_hex(digest, key.data, key.len);
        return region_printf(memory, "sha256:%s", digest);
    }
    buffer shown = {0};
    show_key(&shown, key);
    const char *copy = region_copy(memory, shown.data, shown.len);
    buffer_free(&shown);
    return copy;
}

const char *environment_traceparent(region *memory, semel_bytes value)
{
    trace_context found;
    return trace_context_read(&found, value) ? region_copy(memory, value.data, TRACEPARENT_LEN)
                                             : NULL;
}

static semel_status idempotency_key(const char **out, region *memory, const semel_unit *unit,
                                    semel_error *err)
{
    char key[SEMEL_IDEMPOTENCY_KEY_SIZE];
    semel_status status = semel_unit_idempotency_key(key, unit, err);
    if (status == SEMEL_ENOTFOUND) /* the policy lets messages without a key pass */
        return SEMEL_OK;
    if (!status)
        *out = region_copy(memory, key, strlen(key));
    return status;
}

semel_status environment_of(const char ***out, region *memory, const environment *common,
                            const char *inbox, const semel_unit *unit, const semel_message *message,
                            semel_error *err)
{
    const char *values[VARIABLES] = {0};
    semel_bytes key = semel_unit_key(unit);
    values[VARIABLE_INBOX] = inbox;
    values[VARIABLE_KEY] = key.len ? environment_key(memory, key) : NULL;
    values[VARIABLE_MESSAGE_ID] = message->id.len ? environment_key(memory, message->id) : NULL;
    values[VARIABLE_TYPE] = message->type;
    values[VARIABLE_ATTEMPT] = region_printf(memory, "%u", semel_unit_attempt(unit));
    values[VARIABLE_TRACEPARENT] = environment_traceparent(memory, semel_unit_traceparent(unit));
    semel_status status = idempotency_key(&values[VARIABLE_IDEMPOTENCY_KEY], memory, unit, err);
    if (status)
        return status;
    const char **items = region_alloc(memory, (common->count + VARIABLES + 1) * sizeof *items);
    memcpy(items, common->items, common->count * sizeof *items);
    size_t count = common->count;
    for (size_t i = 0; i < VARIABLES; i++)
        if (values[i])
            items[count++] = region_printf(memory, "%s=%s", names[i], values[i]);
    *out = items;
    return SEMEL_OK;
}
