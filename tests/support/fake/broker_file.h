/* A broker that is a file: what it confirmed is still there when its client was killed. */
#ifndef SEMEL_TESTS_BROKER_FILE_H
#define SEMEL_TESTS_BROKER_FILE_H

#include <semel/transport.h>

typedef struct broker_file {
    const char *path;
    const char *refused_topic; /* messages with this topic are refused; NULL: none */
    /* Around the writing of each batch; may stop or kill the process. NULL: nothing. */
    void (*before)(void *context);
    void (*after)(void *context);
    void *context;
} broker_file;

/* `file` must outlive the transport. */
semel_status broker_file_open(semel_transport **out, const broker_file *file, semel_error *err);

/* What the file holds, in the order in which it was written. */
typedef struct broker_entry {
    char id[64];
    char group[64]; /* "-": none; the same for the others */
    char topic[64];
    char body[64];
} broker_entry;

typedef struct broker_log {
    broker_entry *entries;
    size_t count;
} broker_log;

/* An absent file is an empty one. Aborts on a line that it cannot read. */
void broker_log_read(broker_log *out, const char *path);
void broker_log_free(broker_log *log);

/* Leaves only the first entry of each id. */
void broker_log_drop_copies(broker_log *log);

/* How many different ids, and how many different bodies, there are. */
size_t broker_log_different_ids(const broker_log *log);
size_t broker_log_different_bodies(const broker_log *log);

/* How many different ids, and how many entries, have this body. */
size_t broker_log_ids(const broker_log *log, const char *body);
size_t broker_log_copies(const broker_log *log, const char *body);

/* 1 if in each group the bodies, which must be numbers, come first in ascending order: a body may
 * come again later, but none may come for the first time after a higher one. */
int broker_log_is_ordered(const broker_log *log);

#endif
