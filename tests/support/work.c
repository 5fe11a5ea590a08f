/* See work.h. */
#include "support/work.h"

#include <stdio.h>
#include <string.h>

static void note_id(work *self, semel_bytes id)
{
    size_t used = strlen(self->ids);
    (void)snprintf(self->id, sizeof self->id, "%.*s", (int)id.len, (const char *)id.data);
    (void)snprintf(self->ids + used, sizeof self->ids - used, "%s ", self->id);
}

static void note(work *self, const semel_unit *unit, const semel_message *message)
{
    semel_bytes key = semel_unit_key(unit);
    self->runs++;
    self->attempt = semel_unit_attempt(unit);
    (void)snprintf(self->key, sizeof self->key, "%.*s", (int)key.len, (const char *)key.data);
    note_id(self, message->id);
}

static int is_to_fail(const work *self)
{
    return self->failures && (!self->only || strcmp(self->only, self->id) == 0);
}

semel_status work_do(semel_unit *unit, const semel_message *message, void *context,
                     semel_error *err)
{
    work *self = context;
    semel_status status = SEMEL_OK;
    note(self, unit, message);
    if (self->result)
        status = semel_unit_set_result(unit, self->result, strlen(self->result), err);
    if (!status && self->outbox)
        status = semel_unit_send(unit, self->outbox, self->sends, err);
    if (status) {
        self->trouble = status;
        return status;
    }
    if (!is_to_fail(self))
        return SEMEL_OK;
    self->failures--;
    return semel_fail(err, self->failure ? self->failure : SEMEL_EHANDLER, "out of paper");
}

semel_message text_message(const char *id, const char *body)
{
    return (semel_message){.size = sizeof(semel_message),
                           .id = semel_str(id),
                           .source = "shop",
                           .type = "order.paid",
                           .topic = "orders",
                           .body = semel_str(body)};
}

const semel_message *full_message(void)
{
    static const semel_header headers[] = {{"traceparent", {"00-abc-01", 9}},
                                           {"Binary", {"\x00\xff\r\n", 4}},
                                           {"empty", {"", 0}},
                                           {"traceparent", {"a second one", 12}}};
    static semel_message message = {.size = sizeof message,
                                    .id = {"\x00\xffid\xc3", 5},
                                    .source = "https://shop.example/till/7",
                                    .type = "order.paid",
                                    .topic = "orders/\xc3\xa9t\xc3\xa9",
                                    .group = "customer 17",
                                    .correlation_id = {"\x00\x01", 2},
                                    .content_type = "application/octet-stream",
                                    .time_ms = INT64_C(1767225600123),
                                    .headers = headers,
                                    .header_count = sizeof headers / sizeof *headers,
                                    .body = {"\x00\x01\xfe\xff \"'\\", 8}};
    return &message;
}
