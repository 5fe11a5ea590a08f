/* Where the leasing of outbox rows goes on: kept from call to call, one for each outbox.
 *
 * It is a hint: a call that fails does not move it, and where there is no memory to keep it the
 * next call begins from the beginning, which is no harm. */
#ifndef SEMEL_STORE_SQL_CURSOR_H
#define SEMEL_STORE_SQL_CURSOR_H

#include <pthread.h>
#include <semel/sys/store.h>

/* What a driver does not need stays 0. */
typedef struct sql_cursor {
    struct sql_cursor *next;
    int64_t outbox;
    uint32_t calls;
    int has_groups; /* the last call has seen some */
    /* A lower bound for wake_ms of rows without a group: due rows older than this are rare. */
    int64_t floor_ms;
    int64_t group_floor_ms; /* the same for the due time of groups */
    int64_t looked_at_ms;   /* when all of them were last looked at, by wait_clock_ms() */
    /* Groups from which nothing could be leased, because others have locked rows. */
    size_t passed_over;
    char group[SEMEL_TEXT_MAX + 1]; /* the one that was visited last */
} sql_cursor;

/* In the list: the one of this outbox, which is added if there is none; NULL if memory is out. */
sql_cursor *sql_cursor_of(sql_cursor **list, int64_t outbox);

/* A copy for one call, into one that is zero; the call is counted. And back. `lock` is the
 * list's. */
void sql_cursor_load(sql_cursor *out, sql_cursor *const *list, pthread_mutex_t *lock,
                     int64_t outbox);
void sql_cursor_store(const sql_cursor *from, sql_cursor **list, pthread_mutex_t *lock);

void sql_cursors_free(sql_cursor **list);

#endif
