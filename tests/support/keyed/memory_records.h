/* Records in memory, in the order of their spaces and keys: a tree whose shape follows from a hash
 * of the keys, so that the same records always make the same tree. */
#ifndef SEMEL_TESTS_MEMORY_RECORDS_H
#define SEMEL_TESTS_MEMORY_RECORDS_H

#include <semel/sys/keyed.h>

typedef struct memory_node {
    struct memory_node *left, *right;
    uint64_t weight;
    int64_t expires_ms; /* 0: never */
    semel_keyed_record record;
    unsigned char place[]; /* the bytes of space and key */
} memory_node;

typedef struct memory_records {
    memory_node *root;
    size_t count;
} memory_records;

memory_node *records_find(const memory_records *records, semel_bytes space, semel_bytes key);

/* The record behind this place (or, with `at`, at it); before it, if descending. Only of this
 * space. An empty key is before the first one or, descending, behind the last one. */
memory_node *records_next(const memory_records *records, semel_bytes space, semel_bytes key,
                          int descending);

/* The record is as given afterwards; with keep_body the body that is there stays. */
void records_write(memory_records *records, const semel_keyed_record *record, int keep_body,
                   int64_t expires_ms);
void records_remove(memory_records *records, semel_bytes space, semel_bytes key);
void records_clear(memory_records *records);

#endif
