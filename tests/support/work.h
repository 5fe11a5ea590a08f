/* A handler that counts, and does as it is told; and messages to give it. */
#ifndef SEMEL_TESTS_WORK_H
#define SEMEL_TESTS_WORK_H

#include <semel/semel.h>

typedef struct work {
    /* What to do. All zero: succeed, and nothing else. */
    unsigned failures;          /* so many runs fail first ... */
    semel_status failure;       /* ... with this; default SEMEL_EHANDLER, "out of paper" */
    const char *only;           /* ... and only for the message with this id */
    const char *result;         /* stored with the key */
    semel_outbox *outbox;       /* sent to, before it fails or succeeds ... */
    const semel_message *sends; /* ... this message */

    /* What happened. */
    unsigned runs;
    uint32_t attempt;     /* in the last run: semel_unit_attempt() */
    char key[64];         /* in the last run: the beginning of semel_unit_key() */
    char id[64];          /* in the last run: of the message */
    char ids[32 * 16];    /* of all messages, each followed by a space, as far as there is room */
    semel_status trouble; /* what semel said when it refused to store or send; else SEMEL_OK */
} work;

/* A semel_handler; its context is a work. */
semel_status work_do(semel_unit *unit, const semel_message *message, void *context,
                     semel_error *err);

semel_message text_message(const char *id, const char *body);

/* A message with every field set, and with bytes in it that are not text. The memory is static. */
const semel_message *full_message(void);

#endif
