/* Memory of the program. The library reports that memory has run out; the program says so and ends:
 * nothing that was not committed has happened, and its supervisor starts it again. */
#ifndef SEMEL_PROGRAM_SUPPORT_MEMORY_H
#define SEMEL_PROGRAM_SUPPORT_MEMORY_H

#include <semel/export.h>
#include <stdarg.h>
#include <stddef.h>

/* Zeroed; never NULL. free() frees it. */
void *must_alloc(size_t size);
void *must_realloc(void *old, size_t size);
char *must_copy(const char *text);

/* Memory that is freed all at once: a configuration, one message's work. A zeroed one is empty. */
typedef struct region_block region_block;
typedef struct region {
    region_block *blocks;
} region;

/* Zeroed, aligned for anything. */
void *region_alloc(region *from, size_t size);
char *region_copy(region *from, const char *text, size_t len); /* with a NUL behind it */
char *region_printf(region *from, const char *format, ...) SEMEL_PRINTF(2, 3);
void region_free(region *all);

/* A text or bytes that grow. There is always a NUL behind them, once something was added. */
typedef struct buffer {
    char *data;
    size_t len;
    size_t room;
} buffer;

void buffer_add(buffer *to, const void *data, size_t len);
void buffer_text(buffer *to, const char *text);
void buffer_printf(buffer *to, const char *format, ...) SEMEL_PRINTF(2, 3);
void buffer_vprintf(buffer *to, const char *format, va_list arguments);
void buffer_free(buffer *all);

#endif
