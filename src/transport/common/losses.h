/* What a transport may lose, in sentences: for its `warnings`, and to refuse a URL that does not
 * accept them (loss=warn). */
#ifndef SEMEL_TRANSPORT_COMMON_LOSSES_H
#define SEMEL_TRANSPORT_COMMON_LOSSES_H

#include <semel/error.h>
#include <stddef.h>

typedef struct losses {
    char *at; /* one sentence per line; cut at `room`, at the end of a line */
    size_t room;
    size_t len;
    int full; /* a line did not fit: nothing is added any more */
} losses;

/* Empty at first. */
losses losses_begin(char *out, size_t room);
void losses_add(losses *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* SEMEL_EINVAL with the first of them, unless there are none or they are allowed. */
semel_status losses_refuse(const char *sentences, int allowed, semel_error *err);

#endif
