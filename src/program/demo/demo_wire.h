/* What the provider and a shop say to each other, over two pairs of packet sockets: deliveries and
 * their acknowledgements on one, events and their confirmations on the other. A packet is one
 * frame, whole or not at all, so a shop that is killed while it writes leaves no half of one. Both
 * ends are the same program, so the frame is a struct. */
#ifndef SEMEL_CLI_DEMO_WIRE_H
#define SEMEL_CLI_DEMO_WIRE_H

#include <stddef.h>
#include <stdint.h>

typedef enum frame_kind {
    FRAME_READY = 1, /* shop: up and waiting for deliveries */
    FRAME_DELIVERY,  /* provider */
    FRAME_ACK,       /* shop: dealt with; the provider may forget it */
    FRAME_EVENT,     /* shop: "charged", to be confirmed */
    FRAME_CONFIRM    /* provider: has it */
} frame_kind;

typedef struct frame {
    uint32_t kind;
    uint32_t tag;       /* names the delivery or event that an answer is for */
    uint32_t delivery;  /* of a delivery: 1 for the first, more for a redelivery */
    uint32_t duplicate; /* of an acknowledgement: 1 if it was known already */
    char id[40];        /* of the message */
    char body[72];      /* JSON: payment and cents */
} frame;

typedef enum frame_result {
    FRAME_GOT,
    FRAME_NONE, /* nothing came in time */
    FRAME_END   /* the other side is gone or does not speak this language */
} frame_result;

/* Waits up to wait_ms; -1: as long as it takes. */
frame_result wire_receive(frame *out, int fd, int wait_ms);

/* Returns 0, or -1 if the other side is gone or does not read. Never raises SIGPIPE. */
int wire_send(int fd, const frame *out);

/* Fills id or body; what does not fit is an error of the program, and makes it -1. */
int wire_text(char *field, size_t size, const char *text, size_t len);

/* Microseconds of a clock that does not jump. */
int64_t now_us(void);

#endif
