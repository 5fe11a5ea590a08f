/* What the files of the memory adapter share. */
#ifndef SEMEL_TESTS_MEMORY_ADAPTER_INTERNAL_H
#define SEMEL_TESTS_MEMORY_ADAPTER_INTERNAL_H

#include "base/mem.h"
#include "support/keyed/memory_adapter.h"
#include "support/keyed/memory_records.h"

#include <pthread.h>

enum { MEMORY_NAME_MAX = 64 };

/* An apply() on its way. */
typedef struct memory_flight {
    struct memory_flight *next;
    semel_keyed_change *changes;
    size_t count;
    mem_arena arena;
} memory_flight;

typedef struct memory_counter {
    struct memory_counter *next;
    int64_t number;
    char name[MEMORY_NAME_MAX];
} memory_counter;

typedef struct memory_client {
    struct memory_client *next; /* of those that watch */
    keyed_memory *memory;
    const semel_store_settings *settings;
    int watched; /* a descriptor; -1: none */
} memory_client;

struct keyed_memory {
    keyed_memory *next; /* by name */
    char name[MEMORY_NAME_MAX];
    const semel_keyed_driver *driver;
    keyed_memory_options options;
    keyed_memory_mistake mistake;

    pthread_mutex_t lock; /* for what follows */
    memory_records records;
    memory_counter *counters;
    memory_flight *flights;
    memory_client *watchers;
    uint64_t calls[KEYED_MEMORY_COUNT + 1];
    int64_t clock_offset_ms;
    int64_t latest_ms;
    int clock_known;
    char boot[37]; /* of the host, when the clock was set */
};

void *memory_must(void *memory);

/* memory_apply.c */
semel_status memory_apply(void *store, semel_keyed_change changes[], size_t count,
                          semel_begin durability, semel_keyed_sink *sink, void *context,
                          semel_error *err);
int64_t memory_now(memory_client *client);                               /* with the lock held */
int memory_is_gone(const keyed_memory *memory, const memory_node *node); /* expired */
void memory_tell_watchers(keyed_memory *memory, const semel_keyed_change changes[], size_t count);

/* memory_statement.c. run: with the lock held, after all of a unit were checked with try. */
semel_status memory_queue(void *store, const char *statement, const semel_value values[],
                          size_t count, semel_error *err);
semel_status memory_statement_try(keyed_memory *memory, const semel_keyed_change changes[],
                                  size_t count, semel_error *err);
void memory_statement_run(keyed_memory *memory, const semel_keyed_change *change);

#endif
