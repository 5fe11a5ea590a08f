/* A hash table with chains; tags count up, so their lowest bits spread them evenly. */
#include "transport/common/deliveries.h"

#include "base/mem.h"

enum { BUCKETS_LEAST = 16 };

static delivery_node **bucket_of(const delivery_table *table, uint64_t tag)
{
    return &table->buckets[tag & (table->bucket_count - 1)];
}

static void put_in_bucket(delivery_table *table, delivery_node *node)
{
    delivery_node **bucket = bucket_of(table, node->tag);
    node->same_bucket = *bucket;
    *bucket = node;
}

static void move_all(delivery_table *to, const delivery_table *from)
{
    for (size_t i = 0; i < from->bucket_count; i++)
        for (delivery_node *one = from->buckets[i], *next; one; one = next) {
            next = one->same_bucket;
            put_in_bucket(to, one);
        }
}

int delivery_table_reserve(delivery_table *table, size_t count)
{
    delivery_table old = *table;
    size_t room = BUCKETS_LEAST;
    while (room < count)
        room *= 2;
    if (room <= old.bucket_count)
        return 1;
    delivery_node **buckets = mem_alloc(room * sizeof(delivery_node *));
    if (!buckets)
        return old.bucket_count > 0;
    table->buckets = buckets;
    table->bucket_count = room;
    move_all(table, &old);
    mem_free(old.buckets);
    return 1;
}

void delivery_table_free(delivery_table *table)
{
    mem_free(table->buckets);
    *table = (delivery_table){.last_tag = table->last_tag};
}

int delivery_table_add(delivery_table *table, delivery_node *node)
{
    if (table->count >= table->bucket_count && !delivery_table_reserve(table, table->count + 1))
        return 0;
    node->tag = ++table->last_tag;
    put_in_bucket(table, node);
    table->count++;
    return 1;
}

delivery_node *delivery_table_find(const delivery_table *table, uint64_t tag)
{
    delivery_node *node = table->bucket_count ? *bucket_of(table, tag) : NULL;
    while (node && node->tag != tag)
        node = node->same_bucket;
    return node;
}

void delivery_table_remove(delivery_table *table, delivery_node *node)
{
    delivery_node **link = bucket_of(table, node->tag);
    while (*link != node)
        link = &(*link)->same_bucket;
    *link = node->same_bucket;
    node->same_bucket = NULL;
    node->tag = 0;
    table->count--;
}

delivery_node *delivery_table_take_all(delivery_table *table)
{
    delivery_node *all = NULL;
    for (size_t i = 0; i < table->bucket_count; i++)
        for (delivery_node *one; (one = table->buckets[i]) != NULL;) {
            table->buckets[i] = one->same_bucket;
            one->same_bucket = all;
            all = one;
        }
    table->count = 0;
    return all;
}

/* --- lists ------------------------------------------------------------------------------------ */

void delivery_list_append(delivery_list *list, delivery_node *node)
{
    node->before = list->last;
    node->behind = NULL;
    *(list->last ? &list->last->behind : &list->first) = node;
    list->last = node;
}

void delivery_list_remove(delivery_list *list, delivery_node *node)
{
    *(node->before ? &node->before->behind : &list->first) = node->behind;
    *(node->behind ? &node->behind->before : &list->last) = node->before;
    node->before = node->behind = NULL;
}
