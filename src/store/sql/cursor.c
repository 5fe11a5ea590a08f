#include "store/sql/cursor.h"

#include "base/mem.h"

static sql_cursor *find_cursor(sql_cursor *list, int64_t outbox)
{
    while (list && list->outbox != outbox)
        list = list->next;
    return list;
}

sql_cursor *sql_cursor_of(sql_cursor **list, int64_t outbox)
{
    sql_cursor *cursor = find_cursor(*list, outbox);
    if (cursor || !(cursor = mem_alloc(sizeof *cursor)))
        return cursor;
    cursor->outbox = outbox;
    cursor->next = *list;
    *list = cursor;
    return cursor;
}

void sql_cursor_load(sql_cursor *out, sql_cursor *const *list, pthread_mutex_t *lock,
                     int64_t outbox)
{
    pthread_mutex_lock(lock);
    const sql_cursor *cursor = find_cursor(*list, outbox);
    if (cursor)
        *out = *cursor;
    pthread_mutex_unlock(lock);
    out->outbox = outbox;
    out->calls++;
}

void sql_cursor_store(const sql_cursor *from, sql_cursor **list, pthread_mutex_t *lock)
{
    pthread_mutex_lock(lock);
    sql_cursor *cursor = sql_cursor_of(list, from->outbox);
    if (cursor) {
        sql_cursor *next = cursor->next;
        *cursor = *from;
        cursor->next = next;
    }
    pthread_mutex_unlock(lock);
}

void sql_cursors_free(sql_cursor **list)
{
    for (sql_cursor *cursor = *list, *next; cursor; cursor = next) {
        next = cursor->next;
        mem_free(cursor);
    }
    *list = NULL;
}
