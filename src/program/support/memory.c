/* See memory.h. A region is a list of blocks; what is larger than a block gets one of its own.
 *
 * Every message has a region for a few values, a configuration has one for thousands. So the first
 * block is as large as malloc keeps at hand for a thread, the next ones are larger, and only what
 * is given out is zeroed. */
#include "program/support/memory.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_LEAST = 960, BLOCK_MOST = 16 * 1024, BUFFER_LEAST = 256, EXIT_FAILED = 1 };

static void *checked(void *memory)
{
    if (memory)
        return memory;
    (void)fputs("semel: out of memory\n", stderr);
    _Exit(EXIT_FAILED);
}

void *must_alloc(size_t size)
{
    return checked(calloc(1, size ? size : 1));
}

void *must_realloc(void *old, size_t size)
{
    return checked(realloc(old, size ? size : 1));
}

char *must_copy(const char *text)
{
    return checked(strdup(text));
}

/* --- regions ---------------------------------------------------------------------------------- */

struct region_block {
    region_block *next;
    size_t used;
    size_t room;
    alignas(max_align_t) unsigned char bytes[];
};

static region_block *add_block(region *to, size_t least)
{
    size_t room = to->blocks ? to->blocks->room * 2 : BLOCK_LEAST;
    room = room > BLOCK_MOST ? BLOCK_MOST : room;
    room = room < least ? least : room;
    region_block *block = checked(malloc(sizeof *block + room));
    *block = (region_block){.next = to->blocks, .room = room};
    to->blocks = block;
    return block;
}

void *region_alloc(region *from, size_t size)
{
    size_t rounded =
        (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    region_block *block = from->blocks;
    if (!block || block->room - block->used < rounded)
        block = add_block(from, rounded);
    void *memory = block->bytes + block->used;
    block->used += rounded;
    return memset(memory, 0, rounded);
}

char *region_copy(region *from, const char *text, size_t len)
{
    char *copy = region_alloc(from, len + 1);
    if (len)
        memcpy(copy, text, len);
    return copy;
}

char *region_printf(region *from, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int len = vsnprintf(NULL, 0, format, arguments);
    char *text = region_alloc(from, (size_t)(len < 0 ? 0 : len) + 1);
    if (len > 0)
        (void)vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    va_end(arguments);
    return text;
}

void region_free(region *all)
{
    for (region_block *block = all->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    all->blocks = NULL;
}

/* --- buffers ---------------------------------------------------------------------------------- */

static void buffer_reserve(buffer *to, size_t more)
{
    size_t wanted = to->len + more + 1;
    size_t room = to->room ? to->room : BUFFER_LEAST;
    if (wanted <= to->room)
        return;
    while (room < wanted)
        room = room > SIZE_MAX / 2 ? wanted : room * 2;
    to->data = must_realloc(to->data, room);
    to->room = room;
}

void buffer_add(buffer *to, const void *data, size_t len)
{
    buffer_reserve(to, len);
    if (len)
        memcpy(to->data + to->len, data, len);
    to->len += len;
    to->data[to->len] = 0;
}

void buffer_text(buffer *to, const char *text)
{
    buffer_add(to, text, strlen(text));
}

void buffer_vprintf(buffer *to, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int len = vsnprintf(NULL, 0, format, arguments);
    if (len > 0) {
        buffer_reserve(to, (size_t)len);
        (void)vsnprintf(to->data + to->len, (size_t)len + 1, format, again);
        to->len += (size_t)len;
    }
    va_end(again);
}

void buffer_printf(buffer *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    buffer_vprintf(to, format, arguments);
    va_end(arguments);
}

void buffer_free(buffer *all)
{
    free(all->data);
    *all = (buffer){0};
}
