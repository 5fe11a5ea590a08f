/* Would the server take this statement? It is prepared, in the unit's transaction, and not run. */
#include "store/postgres/postgres.h"
#include "store/sql/sql.h"

/* The server counts characters. */
static size_t byte_of_character(const char *text, int character)
{
    size_t at = 0;
    for (int i = 1; text[at] && i < character; i++)
        do
            at++;
        while (((unsigned char)text[at] & 0xC0) == 0x80);
    return at;
}

/* What is wrong with the statement, or with one that was queued before it; or neither. */
static semel_status check_failed(semel_status status, const pg_failure *failed, semel_error *err)
{
    int passes = status == SEMEL_ECONFLICT || status == SEMEL_EBUSY ||
                 status == SEMEL_EUNAVAILABLE || status == SEMEL_ENOMEM;
    if (passes || failed->which != ST_APPLICATIONS)
        return status;
    status = failed->kind == STEP_CHECK ? SEMEL_EINVAL : SEMEL_EHANDLER;
    if (err) {
        err->status = status;
        err->retryable = status == SEMEL_EHANDLER;
    }
    return status;
}

semel_status postgres_check(void *unit_state, const char *sql, size_t count, size_t *position,
                            semel_error *err)
{
    postgres_unit *unit = unit_state;
    mem_arena *arena = &unit->on->scratch;
    pg_failure failed = {.kind = STEP_PLAIN};
    const char *text = NULL;
    semel_status status = sql_translate_at(&text, arena, SQL_POSTGRES, sql, count, position, err);
    if (status)
        return status;
    pg_unit_begin(unit);
    pg_unit_patience(unit, unit->on->limits.busy_ms);
    pg_enqueue_check(unit->on, text);
    status = pg_flush(unit->on, 0, &failed, "running queued statements", err);
    if (status && failed.kind == STEP_CHECK && failed.position)
        *position =
            sql_position(arena, SQL_POSTGRES, sql, count, byte_of_character(text, failed.position));
    return status ? check_failed(status, &failed, err) : SEMEL_OK;
}
