/* Names of inboxes, outboxes, queues, types and sources, and their numbers. */
#ifndef SEMEL_STORE_KEYED_NAMES_H
#define SEMEL_STORE_KEYED_NAMES_H

#include "store/keyed/keyed.h"

/* Names by number, each read once. */
typedef struct keyed_names {
    keyed_store *store;
    semel_scope kind;
    mem_arena arena;
    struct keyed_known_name *known;
} keyed_names;

/* NULL in *out for the number 0, and for one that has no name. */
semel_status keyed_names_find(const char **out, keyed_names *names, int64_t number,
                              semel_error *err);
void keyed_names_free(keyed_names *names);

/* Visits the names of a kind with their numbers, in their order. */
typedef semel_status keyed_name_visit(const char *name, int64_t number, void *context,
                                      semel_error *err);
semel_status keyed_names_each(keyed_store *store, semel_scope kind, const char *after,
                              uint32_t limit, keyed_name_visit *visit, void *context,
                              semel_error *err);

#endif
