/* A message that comes in pieces: a method (deliver or return), a header, bodies. */
#ifndef SEMEL_TRANSPORT_RABBITMQ_CONTENT_H
#define SEMEL_TRANSPORT_RABBITMQ_CONTENT_H

#include <amqp.h>
#include <amqp_framing.h>
#include <stddef.h>
#include <stdint.h>

typedef enum rabbit_piece {
    RABBIT_PIECE_MORE = 0, /* not complete yet */
    RABBIT_PIECE_COMPLETE,
    RABBIT_PIECE_BAD /* it makes no sense here, or there is no memory: the link is of no use */
} rabbit_piece;

/* Between the first piece and the last the frames' memory must stay, for `method` and `properties`
 * lie in it. */
typedef struct rabbit_content {
    const void *method; /* NULL: nothing is under way */
    const amqp_basic_properties_t *properties;
    uint64_t body_size;
    uint64_t seen;
    int too_large;       /* the body is over SEMEL_BODY_MAX and was not kept */
    unsigned char *body; /* room of its own, kept for the next */
    size_t body_room;
} rabbit_content;

void rabbit_content_start(rabbit_content *content, const void *method);
rabbit_piece rabbit_content_add(rabbit_content *content, const amqp_frame_t *frame);
void rabbit_content_end(rabbit_content *content);
void rabbit_content_free(rabbit_content *content);

#endif
