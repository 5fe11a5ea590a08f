/* See send.h.
 *
 * A message that is sent without an id of its own gets one that is made of the inbox, the key and
 * its position among the messages of the inbox. So it is the same each time the received message is
 * handled, in whatever process: a receiver with the key `id` sees a repetition as one. If the
 * process dies before the commit, nothing was sent. */
#include "program/handler/send.h"

#include "program/handler/template.h"
#include "program/handler/topic.h"

#include <stdlib.h>
#include <string.h>

typedef struct send_header {
    const char *name;
    template_text value;
} send_header;

typedef struct send_message {
    const char *to;
    template_text type, id, topic, group;
    int has_type, has_id, has_topic, has_group;
    const char *queue; /* the topic of what goes to a queue by its name; NULL: the type is it */
    send_header *headers;
    size_t header_count;
    template_node *body; /* NULL: as received */
} send_message;

struct send_plan {
    region memory;
    const char *inbox;
    send_message *messages;
    size_t count;
};

/* --- opening ---------------------------------------------------------------------------------- */

static int read_field(template_text *out, int *has, region *memory, const char *written,
                      const char *field, send_mistake *wrong)
{
    *has = written != NULL;
    wrong->field = field;
    return !written || template_text_read(out, memory, written, &wrong->what);
}

static int read_headers(send_message *out, region *memory, const config_pairs *headers,
                        send_mistake *wrong)
{
    out->headers = region_alloc(memory, (headers->count + 1) * sizeof *out->headers);
    wrong->field = "headers";
    for (; out->header_count < headers->count; out->header_count++) {
        const config_pair *pair = &headers->items[out->header_count];
        send_header *header = &out->headers[out->header_count];
        header->name = region_copy(memory, pair->name, strlen(pair->name));
        if (!template_text_read(&header->value, memory, pair->value, &wrong->what))
            return 0;
    }
    return 1;
}

static int read_send(send_message *out, region *memory, const config *all, const send_config *from,
                     send_mistake *wrong)
{
    out->to = region_copy(memory, from->to, strlen(from->to));
    out->queue = topic_of_queue(memory, all, from->to);
    int ok = read_field(&out->type, &out->has_type, memory, from->type, "type", wrong) &&
             read_field(&out->id, &out->has_id, memory, from->id, "id", wrong) &&
             read_field(&out->topic, &out->has_topic, memory, from->topic, "topic", wrong) &&
             read_field(&out->group, &out->has_group, memory, from->group, "group", wrong) &&
             read_headers(out, memory, &from->headers, wrong);
    if (!ok || !from->body)
        return ok;
    wrong->field = "body";
    ok = template_read(&out->body, memory, from->body, &wrong->at, &wrong->what);
    if (ok && template_is_body(out->body))
        out->body = NULL;
    return ok;
}

semel_status send_open(send_plan **out, const config *all, const inbox_config *inbox,
                       send_mistake *wrong, semel_error *err)
{
    send_mistake local;
    send_plan *plan = must_alloc(sizeof *plan);
    wrong = wrong ? wrong : &local;
    *wrong = (send_mistake){0};
    plan->inbox = inbox->name;
    plan->messages = region_alloc(&plan->memory, (inbox->send_count + 1) * sizeof(send_message));
    for (; plan->count < inbox->send_count; plan->count++) {
        wrong->send = plan->count;
        if (read_send(&plan->messages[plan->count], &plan->memory, all, &inbox->sends[plan->count],
                      wrong))
            continue;
        send_close(plan);
        return semel_fail(err, SEMEL_EINVAL, "send, message %zu, %s: %s", wrong->send + 1,
                          wrong->field, wrong->what.text);
    }
    *out = plan;
    return SEMEL_OK;
}

void send_close(send_plan *plan)
{
    if (!plan)
        return;
    region_free(&plan->memory);
    free(plan);
}

/* --- one message ------------------------------------------------------------------------------ */

/* A text of the message that is made: the configured one or, without one, `otherwise`. */
static semel_status fill_text(const char **out, const template_text *of, int has,
                              const char *otherwise, value_source *source, semel_error *err)
{
    semel_bytes text = {otherwise, 0};
    semel_status status = has ? template_text_get(&text, of, source, err) : SEMEL_OK;
    if (!status)
        *out = text.data;
    return status;
}

/* What one key sends, and in which order, is the same each time. A message without a key, which the
 * inbox was told to handle all the same, gets an id by chance. */
static semel_status make_id(semel_bytes *out, value_source *source, size_t position,
                            semel_error *err)
{
    char key[SEMEL_IDEMPOTENCY_KEY_SIZE];
    semel_status status = semel_unit_idempotency_key(key, source->unit, err);
    if (status == SEMEL_ENOTFOUND)
        return SEMEL_OK;
    if (!status)
        *out = semel_str(region_printf(&source->memory, "%s-%zu", key, position + 1));
    return status;
}

static semel_status fill_id(semel_bytes *out, const send_message *from, size_t position,
                            value_source *source, semel_error *err)
{
    semel_status status = from->has_id ? template_text_get(out, &from->id, source, err) : SEMEL_OK;
    return status || out->len ? status : make_id(out, source, position, err);
}

/* A header that the message does not have is not sent. */
static semel_status fill_headers(semel_message *out, const send_message *from, value_source *source,
                                 semel_error *err)
{
    semel_header *headers =
        region_alloc(&source->memory, (from->header_count + 1) * sizeof *headers);
    out->headers = headers;
    for (size_t i = 0; i < from->header_count; i++) {
        semel_bytes value = {NULL, 0};
        semel_status status = template_text_get(&value, &from->headers[i].value, source, err);
        if (status)
            return status;
        if (value.data)
            headers[out->header_count++] = (semel_header){from->headers[i].name, value};
    }
    return SEMEL_OK;
}

static semel_status fill_body(semel_message *out, const send_message *from, value_source *source,
                              semel_error *err)
{
    out->body = source->message->body;
    out->content_type = source->message->content_type;
    if (!from->body)
        return SEMEL_OK;
    out->content_type = "application/json";
    return template_fill(&out->body, from->body, source, err);
}

static semel_status fill_message(semel_message *out, const send_message *from, size_t position,
                                 value_source *source, semel_error *err)
{
    const semel_message *received = source->message;
    *out = (semel_message){.size = sizeof *out, .source = source->inbox};
    semel_status status =
        fill_text(&out->type, &from->type, from->has_type, received->type, source, err);
    if (!status)
        status = fill_id(&out->id, from, position, source, err);
    if (!status)
        status = fill_text(&out->topic, &from->topic, from->has_topic,
                           from->queue ? from->queue : out->type, source, err);
    if (!status)
        status =
            fill_text(&out->group, &from->group, from->has_group, received->group, source, err);
    if (!status)
        status = fill_headers(out, from, source, err);
    out->correlation_id = received->correlation_id;
    return status ? status : fill_body(out, from, source, err);
}

static semel_status send_one(const send_message *from, size_t position, semel_unit *unit,
                             value_source *source, semel_error *err)
{
    semel_message made;
    semel_outbox *outbox = semel_unit_outbox(unit, from->to);
    if (!outbox)
        return semel_fail(err, SEMEL_EHANDLER, "send: there is no outbox \"%s\"", from->to);
    semel_status status = fill_message(&made, from, position, source, err);
    return status ? status : semel_unit_send(unit, outbox, &made, err);
}

semel_status send_all(const send_plan *plan, semel_unit *unit, const semel_message *message,
                      semel_error *err)
{
    value_source source = {.message = message, .unit = unit, .inbox = plan->inbox};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < plan->count; i++)
        status = send_one(&plan->messages[i], i, unit, &source, err);
    value_source_free(&source);
    return status;
}
