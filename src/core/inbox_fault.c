/* Announcements of dead letters: a message for each, in the inbox's outbox for faults.
 *
 * It is stored in the transaction that stores the letter, so there is an announcement if, and only
 * if, there is a letter. Nothing in the failed message may keep that transaction from committing: a
 * text of its sender that is not UTF-8 goes into a header, whose bytes a store does not interpret,
 * and a header for which there is no room is left out and counted. */
#include "core/unit.h"

#include "base/rfc3339.h"
#include "base/text.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

#define ORIGINAL "original-" /* before the name of a header that is one of ours */

enum { NUMBER_TEXT = 24 };

static const char *const own_names[] = {
    "semel-inbox",     "semel-error",          "semel-message-id", "semel-type",
    "semel-source",    "semel-topic",          "semel-attempts",   "semel-first-time",
    "semel-last-time", "semel-dropped-headers"};

enum { OWN_MAX = sizeof own_names / sizeof *own_names };

typedef struct announcement {
    work_unit *unit;
    semel_header headers[SEMEL_HEADERS_MAX];
    size_t count;
    size_t dropped;
    char attempts[NUMBER_TEXT];
    char dropped_text[NUMBER_TEXT];
    char first_time[RFC3339_TEXT + 1];
    char last_time[RFC3339_TEXT + 1];
} announcement;

static void add_header(announcement *a, const char *name, semel_bytes value)
{
    if (value.len)
        a->headers[a->count++] = (semel_header){name, value};
}

static void add_time(announcement *a, const char *name, char text[RFC3339_TEXT + 1], int64_t ms)
{
    if (rfc3339_format(text, ms))
        add_header(a, name, semel_str(text));
}

static void add_own_headers(announcement *a, const char *why)
{
    const unit_item *item = &a->unit->item;
    const semel_message *message = item->message;
    int64_t now = seam_wall_ms(&a->unit->store->seam);
    (void)snprintf(a->attempts, sizeof a->attempts, "%u", (unsigned)item->attempt);
    add_header(a, "semel-inbox", semel_str(item->inbox->name));
    add_header(a, "semel-error", semel_str(why));
    add_header(a, "semel-message-id", message->id);
    add_header(a, "semel-type", semel_str(message->type));
    add_header(a, "semel-source", semel_str(message->source));
    add_header(a, "semel-topic", semel_str(message->topic));
    add_header(a, "semel-attempts", semel_str(a->attempts));
    add_time(a, "semel-first-time", a->first_time, item->mark.first_ms ? item->mark.first_ms : now);
    add_time(a, "semel-last-time", a->last_time,
             item->mark.changed_ms ? item->mark.changed_ms : now);
}

static int is_own_name(const char *name)
{
    for (size_t i = 0; i < OWN_MAX; i++)
        if (text_same(name, own_names[i]))
            return 1;
    return 0;
}

/* The name under which a header of the failed message is passed on; NULL: it is left out. */
static const char *name_for(announcement *a, const semel_header *header)
{
    size_t len = strlen(header->name);
    if (a->count == SEMEL_HEADERS_MAX - 1 || !utf8_valid(header->name, len))
        return NULL; /* the last place is for the number of those that are left out */
    if (!is_own_name(header->name))
        return header->name;
    if (len + sizeof ORIGINAL - 1 + header->value.len > SEMEL_HEADER_MAX)
        return NULL;
    char *name = arena_alloc(&a->unit->arena, len + sizeof ORIGINAL);
    if (name) {
        memcpy(name, ORIGINAL, sizeof ORIGINAL - 1);
        memcpy(name + sizeof ORIGINAL - 1, header->name, len + 1);
    }
    return name;
}

/* Not the moment from which the age of the failed message counts: the announcement has its own. */
static void add_headers_of_message(announcement *a)
{
    const semel_message *message = a->unit->item.message;
    for (size_t i = 0; i < message->header_count; i++) {
        const semel_header *header = &message->headers[i];
        if (strcmp(header->name, SEMEL_HEADER_DUE) == 0)
            continue;
        const char *name = a->unit->item.bodiless ? NULL : name_for(a, header);
        if (name)
            a->headers[a->count++] = (semel_header){name, header->value};
        else
            a->dropped++;
    }
    (void)snprintf(a->dropped_text, sizeof a->dropped_text, "%zu", a->dropped);
    if (a->dropped)
        add_header(a, "semel-dropped-headers", semel_str(a->dropped_text));
}

static semel_status send_announcement(announcement *a, semel_bytes id, semel_error *err)
{
    const semel_inbox *inbox = a->unit->item.inbox;
    const semel_message *message = a->unit->item.message;
    const char *type = message->content_type;
    semel_message fault = {.size = sizeof fault,
                           .id = id,
                           .source = inbox->name,
                           .type = "semel.fault",
                           .topic = inbox->fault_topic ? inbox->fault_topic : "semel.fault",
                           .correlation_id = message->correlation_id,
                           .headers = a->headers,
                           .header_count = a->count};
    if (inbox->options.fault_body && !a->unit->item.bodiless) {
        fault.body = message->body;
        fault.content_type = type && utf8_valid(type, strlen(type)) ? type : NULL;
    }
    return unit_send(a->unit, inbox->options.faults, &fault, err);
}

semel_status unit_announce_fault(work_unit *unit, semel_bytes id, const char *why, semel_error *err)
{
    if (!unit->item.inbox->options.faults)
        return SEMEL_OK;
    announcement *a = arena_alloc(&unit->arena, sizeof *a);
    if (!a)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for an announcement");
    a->unit = unit;
    a->count = a->dropped = 0;
    add_own_headers(a, why);
    add_headers_of_message(a);
    return send_announcement(a, id, err);
}
