/* Bodies are gathered in one block, which grows and stays; one that is too large to be a message is
 * counted, not kept. */
#include "transport/rabbitmq/content.h"

#include "base/mem.h"

#include <semel/message.h>
#include <string.h>

void rabbit_content_start(rabbit_content *content, const void *method)
{
    content->method = method;
    content->properties = NULL;
    content->body_size = content->seen = 0;
    content->too_large = 0;
}

static int make_room(rabbit_content *content)
{
    if (content->body_size <= content->body_room)
        return 1;
    unsigned char *body = mem_resize(content->body, (size_t)content->body_size);
    if (!body)
        return 0;
    content->body = body;
    content->body_room = (size_t)content->body_size;
    return 1;
}

static rabbit_piece add_header(rabbit_content *content, const amqp_frame_t *frame)
{
    if (content->properties || frame->payload.properties.class_id != AMQP_BASIC_CLASS)
        return RABBIT_PIECE_BAD;
    content->properties = frame->payload.properties.decoded;
    content->body_size = frame->payload.properties.body_size;
    content->too_large = content->body_size > SEMEL_BODY_MAX;
    if (!content->too_large && !make_room(content))
        return RABBIT_PIECE_BAD;
    return content->body_size ? RABBIT_PIECE_MORE : RABBIT_PIECE_COMPLETE;
}

static rabbit_piece add_body(rabbit_content *content, amqp_bytes_t piece)
{
    if (!content->properties || piece.len > content->body_size - content->seen)
        return RABBIT_PIECE_BAD;
    if (!content->too_large && piece.len)
        memcpy(content->body + content->seen, piece.bytes, piece.len);
    content->seen += piece.len;
    return content->seen < content->body_size ? RABBIT_PIECE_MORE : RABBIT_PIECE_COMPLETE;
}

rabbit_piece rabbit_content_add(rabbit_content *content, const amqp_frame_t *frame)
{
    if (!content->method)
        return RABBIT_PIECE_BAD;
    if (frame->frame_type == AMQP_FRAME_HEADER)
        return add_header(content, frame);
    if (frame->frame_type == AMQP_FRAME_BODY)
        return add_body(content, frame->payload.body_fragment);
    return RABBIT_PIECE_BAD;
}

void rabbit_content_end(rabbit_content *content)
{
    content->method = NULL;
    content->properties = NULL;
}

void rabbit_content_free(rabbit_content *content)
{
    mem_free(content->body);
    *content = (rabbit_content){0};
}
