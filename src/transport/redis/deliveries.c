/* Deliveries that are out. A delivery is one block, with room for its headers, and the reply that
 * its message points into: the message is not copied. */
#include "transport/redis/streams.h"

#include "transport/redis/entry.h"

#include <stdio.h>
#include <string.h>

/* Of an entry that another program wrote without an id: the same at each delivery. */
static int make_id(stream_delivery *d, const char *stream)
{
    size_t room = strlen(stream) + 1 + sizeof d->entry;
    d->id = mem_alloc(room);
    if (!d->id)
        return 0;
    (void)snprintf(d->id, room, "%s/%s", stream, d->entry);
    d->message.id = semel_str(d->id);
    return 1;
}

stream_delivery *stream_delivery_new(const streams *self, const char *entry, uint64_t count,
                                     redisReply *fields)
{
    stream_delivery *d = mem_alloc(sizeof *d + stream_entry_headers(fields) * sizeof(semel_header));
    if (!d)
        return NULL;
    (void)snprintf(d->entry, sizeof d->entry, "%s", entry);
    d->count = count;
    stream_entry_read(&d->message, d->headers, fields);
    if (!d->message.id.len && !make_id(d, self->at.stream)) {
        mem_free(d);
        return NULL;
    }
    d->fields = fields;
    d->message.delivery = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
    return d;
}

void stream_delivery_free(stream_delivery *d)
{
    freeReplyObject(d->fields);
    mem_free(d->id);
    mem_free(d);
}

int stream_delivery_add(streams *self, stream_delivery *d)
{
    if (!delivery_table_add(&self->table, &d->node))
        return 0;
    delivery_list_append(&self->out, &d->node);
    return 1;
}

stream_delivery *stream_delivery_find(const streams *self, uint64_t tag)
{
    return (stream_delivery *)delivery_table_find(&self->table, tag); /* its first member */
}

stream_delivery *stream_delivery_of_entry(const streams *self, const char *entry)
{
    delivery_node *one = self->out.first;
    while (one &&
           (((stream_delivery *)one)->gone || strcmp(((stream_delivery *)one)->entry, entry) != 0))
        one = one->behind;
    return (stream_delivery *)one;
}

size_t stream_deliveries_held(const streams *self)
{
    size_t count = 0;
    for (const delivery_node *one = self->out.first; one; one = one->behind)
        count += !((const stream_delivery *)one)->gone;
    return count;
}

void stream_delivery_remove(streams *self, stream_delivery *d)
{
    delivery_table_remove(&self->table, &d->node);
    delivery_list_remove(&self->out, &d->node);
}

void stream_deliveries_free(streams *self)
{
    for (delivery_node *one = delivery_table_take_all(&self->table), *next; one; one = next) {
        next = one->same_bucket;
        stream_delivery_free((stream_delivery *)one);
    }
    delivery_table_free(&self->table);
}
