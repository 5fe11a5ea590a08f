#include "support/keyed/memory_records.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static int compare_place(const memory_node *node, semel_bytes space, semel_bytes key)
{
    int order = semel_keyed_compare(space, node->record.space);
    return order ? order : semel_keyed_compare(key, node->record.key);
}

memory_node *records_find(const memory_records *records, semel_bytes space, semel_bytes key)
{
    memory_node *at = records->root;
    while (at) {
        int order = compare_place(at, space, key);
        if (!order)
            return at;
        at = order < 0 ? at->left : at->right;
    }
    return NULL;
}

/* Is the node on the side of the place that is read? */
static int is_ahead(const memory_node *node, semel_bytes space, semel_bytes key, int descending)
{
    int order = semel_keyed_compare(space, node->record.space);
    if (order)
        return descending ? order > 0 : order < 0;
    if (!key.len)
        return 1;
    order = semel_keyed_compare(key, node->record.key);
    return descending ? order > 0 : order < 0;
}

memory_node *records_next(const memory_records *records, semel_bytes space, semel_bytes key,
                          int descending)
{
    memory_node *at = records->root, *best = NULL;
    while (at) {
        int ahead = is_ahead(at, space, key, descending);
        if (ahead)
            best = at;
        at = (ahead != 0) == (descending != 0) ? at->right : at->left;
    }
    return best && !semel_keyed_compare(best->record.space, space) ? best : NULL;
}

/* --- the tree --------------------------------------------------------------------------------- */

static uint64_t hash_more(uint64_t hash, semel_bytes bytes)
{
    const unsigned char *data = bytes.data;
    for (size_t i = 0; i < bytes.len; i++)
        hash = (hash ^ data[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t weight_of(semel_bytes space, semel_bytes key)
{
    uint64_t hash = hash_more(hash_more(0xcbf29ce484222325u, space) * 31, key);
    hash = (hash ^ (hash >> 31)) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

/* Into what is before the place and what is behind it. */
static void split(memory_node *tree, semel_bytes space, semel_bytes key, memory_node **before,
                  memory_node **behind)
{
    while (tree) {
        if (compare_place(tree, space, key) < 0) {
            *behind = tree;
            behind = &tree->left;
            tree = tree->left;
        } else {
            *before = tree;
            before = &tree->right;
            tree = tree->right;
        }
    }
    *before = *behind = NULL;
}

static memory_node *join(memory_node *before, memory_node *behind)
{
    memory_node *root = NULL, **at = &root;
    while (before && behind) {
        if (before->weight > behind->weight) {
            *at = before;
            at = &before->right;
            before = before->right;
        } else {
            *at = behind;
            at = &behind->left;
            behind = behind->left;
        }
    }
    *at = before ? before : behind;
    return root;
}

static void insert(memory_records *records, memory_node *node)
{
    memory_node **at = &records->root;
    while (*at && (*at)->weight >= node->weight)
        at = compare_place(*at, node->record.space, node->record.key) < 0 ? &(*at)->left
                                                                          : &(*at)->right;
    split(*at, node->record.space, node->record.key, &node->left, &node->right);
    *at = node;
    records->count++;
}

/* --- changes ---------------------------------------------------------------------------------- */

static void *must(void *memory)
{
    if (!memory)
        abort(); /* no test can go on */
    return memory;
}

static semel_bytes copy_bytes(semel_bytes bytes)
{
    char *copy = must(malloc(bytes.len + 1));
    if (bytes.len)
        memcpy(copy, bytes.data, bytes.len);
    return (semel_bytes){copy, bytes.len};
}

static memory_node *new_node(semel_bytes space, semel_bytes key)
{
    memory_node *node = must(calloc(1, sizeof *node + space.len + key.len));
    if (space.len)
        memcpy(node->place, space.data, space.len);
    if (key.len)
        memcpy(node->place + space.len, key.data, key.len);
    node->weight = weight_of(space, key);
    node->record.space = (semel_bytes){node->place, space.len};
    node->record.key = (semel_bytes){node->place + space.len, key.len};
    return node;
}

static void free_bytes(semel_bytes bytes)
{
    free((void *)(uintptr_t)bytes.data);
}

static void free_node(memory_node *node)
{
    free_bytes(node->record.value);
    free_bytes(node->record.body);
    free(node);
}

void records_write(memory_records *records, const semel_keyed_record *record, int keep_body,
                   int64_t expires_ms)
{
    memory_node *node = records_find(records, record->space, record->key);
    if (!node) {
        node = new_node(record->space, record->key);
        insert(records, node);
    }
    memcpy(node->record.version, record->version, sizeof record->version);
    node->record.guard = record->guard;
    node->record.until_ms = record->until_ms;
    node->expires_ms = expires_ms;
    free_bytes(node->record.value);
    node->record.value = copy_bytes(record->value);
    if (keep_body)
        return;
    free_bytes(node->record.body);
    node->record.body = record->body.data ? copy_bytes(record->body) : (semel_bytes){NULL, 0};
}

void records_remove(memory_records *records, semel_bytes space, semel_bytes key)
{
    memory_node **at = &records->root;
    while (*at) {
        int order = compare_place(*at, space, key);
        if (!order) {
            memory_node *gone = *at;
            *at = join(gone->left, gone->right);
            free_node(gone);
            records->count--;
            return;
        }
        at = order < 0 ? &(*at)->left : &(*at)->right;
    }
}

void records_clear(memory_records *records)
{
    while (records->root)
        records_remove(records, records->root->record.space, records->root->record.key);
}
