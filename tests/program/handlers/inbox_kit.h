/* An inbox as a configuration declares it, on a store: its handler opened by the program's own
 * code, messages received one by one. */
#ifndef SEMEL_TESTS_INBOX_KIT_H
#define SEMEL_TESTS_INBOX_KIT_H

#include "program/handler/handler.h"
#include "program/support/memory.h"
#include "support/fixture/fixture.h"

typedef struct inbox_kit {
    fixture base;
    config all;
    inbox_config declared; /* set before inbox_kit_start() */
    queue_config queues[2];
    region memory;
    handler *handler;
    semel_inbox *inbox;
    semel_outbox *outbox; /* "shipping" */
} inbox_kit;

/* For cmocka, whose initial state says where: 0 SQLite, with a clock that stands still, else a
 * server_kind. */
int inbox_kit_setup(void **state);
int inbox_kit_teardown(void **state);

/* A template of YAML, which lives as long as the kit. */
const config_node *inbox_kit_yaml(inbox_kit *k, const char *yaml);

/* Opens the handler and the inbox "payments", whose key is json:/order_id if nothing else is
 * said. */
void inbox_kit_start(inbox_kit *k);

/* Receives a message with this body. */
#define KIT_RECEIVES(status, outcome, kit, body) \
    inbox_kit_receive((status), (outcome), (kit), (body), __FILE__, __LINE__)
void inbox_kit_receive(semel_status status, semel_outcome outcome, inbox_kit *k, const char *body,
                       const char *file, int line);

/* One number, as another client of the database sees it. */
int64_t inbox_kit_number(inbox_kit *k, const char *sql);

/* clang-format off */
#define KIT_ON_SQLITE(test) \
    {#test ", sqlite", test, inbox_kit_setup, inbox_kit_teardown, (void *)0}
#define KIT_ON_EACH(test) KIT_ON_SQLITE(test), ON_EACH(test, inbox_kit_setup, inbox_kit_teardown)
/* clang-format on */

#endif
