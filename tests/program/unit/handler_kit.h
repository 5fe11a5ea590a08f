/* A handler of the program and a store of its own: each message is received as `semel run` would.
 * The handlers under test are scripts of sh, in the directory of the test. */
#ifndef SEMEL_TESTS_PROGRAM_HANDLER_KIT_H
#define SEMEL_TESTS_PROGRAM_HANDLER_KIT_H

#include "program/handler/handler.h"
#include "support/base/check.h"
#include "support/base/scratch.h"

enum { KIT_WORDS = 8 };

typedef struct handler_kit {
    scratch directory;
    char url[SCRATCH_PATH];
    const handler_class *kind;
    semel_store *store;
    semel_inbox *inbox;
    config all;
    inbox_config config;
    const char *words[KIT_WORDS];
    void *state;
    uint32_t lease_ms;
    uint32_t attempts_max;
} handler_kit;

/* Before: the caller may set lease_ms and attempts_max. Makes the directory and opens the store. */
void kit_open(handler_kit *kit, const handler_class *kind);
void kit_close(handler_kit *kit);

/* Opens the handler: sh -c SCRIPT. Close it with kit_close(), or by another call of this. */
void kit_script(handler_kit *kit, const char *script);
void kit_close_handler(handler_kit *kit);

/* Receives a message with this id and body; last_error is its error. */
semel_outcome kit_receive(handler_kit *kit, const char *id, const char *body);
semel_outcome kit_receive_message(handler_kit *kit, const semel_message *message);

/* The content of a file in the directory, or "" if there is none; valid until the next call. */
const char *kit_file(handler_kit *kit, const char *name);

/* The stored result of a key, valid until the next call; NULL: none. */
const char *kit_result(handler_kit *kit, const char *id);

/* Waits until the process with the number in this file has ended: 1, or 0 after a minute. */
int kit_process_ends(handler_kit *kit, const char *file);

#endif
