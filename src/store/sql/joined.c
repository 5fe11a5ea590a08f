#include "store/sql/joined.h"

semel_status sql_joined_add(sql_joined *unit, sql_joined **list, pthread_mutex_t *lock,
                            const void *connection, semel_error *err)
{
    pthread_mutex_lock(lock);
    const sql_joined *at = *list;
    while (at && at->connection != connection)
        at = at->next;
    if (!at) {
        *unit = (sql_joined){*list, connection};
        *list = unit;
    }
    pthread_mutex_unlock(lock);
    return at ? semel_fail(err, SEMEL_EMISUSE,
                           "a unit is open on this connection already: end it first, or use it")
              : SEMEL_OK;
}

void sql_joined_remove(const sql_joined *unit, sql_joined **list, pthread_mutex_t *lock)
{
    pthread_mutex_lock(lock);
    sql_joined **at = list;
    while (*at && *at != unit)
        at = &(*at)->next;
    if (*at)
        *at = unit->next;
    pthread_mutex_unlock(lock);
}
