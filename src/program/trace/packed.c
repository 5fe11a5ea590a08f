/* See packed.h. */
#include "program/trace/packed.h"

#ifdef SEMEL_WITH_ZLIB

#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

enum { GZIP_WINDOW = 15 + 16, MEMORY_LEVEL = 8 };

int packed_is_possible(void)
{
    return 1;
}

/* Of spans a tenth is left at the fastest level; higher ones cost more than they gain. */
int packed_write(buffer *to, const buffer *from)
{
    z_stream stream = {0};
    to->len = 0;
    if (from->len > INT_MAX || deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW,
                                            MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return 0;
    uLong room = deflateBound(&stream, (uLong)from->len);
    char *out = must_alloc(room);
    stream.next_in = (Bytef *)from->data;
    stream.avail_in = (uInt)from->len;
    stream.next_out = (Bytef *)out;
    stream.avail_out = (uInt)room;
    int done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
    if (done)
        buffer_add(to, out, stream.total_out);
    (void)deflateEnd(&stream);
    free(out);
    return done;
}

#else

int packed_is_possible(void)
{
    return 0;
}

int packed_write(buffer *to, const buffer *from)
{
    (void)to, (void)from;
    return 0;
}

#endif
