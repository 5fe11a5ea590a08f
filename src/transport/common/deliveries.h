/* Deliveries that are out: found by their tag, and kept in the order of delivery.
 *
 * A transport's own delivery begins with a `delivery_node`. The table gives it a tag, which is
 * never used again, and finds it by that; a list keeps some of them in order. Neither owns memory
 * but for the buckets. No lock: the transport has one. */
#ifndef SEMEL_TRANSPORT_COMMON_DELIVERIES_H
#define SEMEL_TRANSPORT_COMMON_DELIVERIES_H

#include <stddef.h>
#include <stdint.h>

typedef struct delivery_node delivery_node;
struct delivery_node {
    uint64_t tag; /* 0: it is in no table */
    delivery_node *same_bucket;
    delivery_node *before, *behind; /* in a list */
};

typedef struct delivery_list {
    delivery_node *first, *last;
} delivery_list;

typedef struct delivery_table {
    delivery_node **buckets;
    size_t bucket_count; /* a power of two; 0: nothing was added yet */
    size_t count;
    uint64_t last_tag;
} delivery_table;

/* Room for so many without long chains; it grows by itself. 0: out of memory. */
int delivery_table_reserve(delivery_table *table, size_t count);
void delivery_table_free(delivery_table *table); /* the nodes are the caller's */

/* The node gets the next tag. 0: out of memory, and only if there was no room reserved. */
int delivery_table_add(delivery_table *table, delivery_node *node);
delivery_node *delivery_table_find(const delivery_table *table, uint64_t tag); /* or NULL */
void delivery_table_remove(delivery_table *table, delivery_node *node);

/* Empties the table: all of its nodes, linked by same_bucket. */
delivery_node *delivery_table_take_all(delivery_table *table);

void delivery_list_append(delivery_list *list, delivery_node *node);
void delivery_list_remove(delivery_list *list, delivery_node *node);

#endif
