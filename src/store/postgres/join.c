/* Units inside a transaction that the caller has open, on the caller's connection.
 *
 * A savepoint is the unit; the transaction stays the caller's. It must be on the store's own
 * database, which is looked at: a marker in another one would protect nothing. */
#include "store/postgres/postgres.h"

#include <semel/postgres.h>
#include <stdio.h>
#include <string.h>

static semel_status know_identity(postgres_store *store, semel_error *err)
{
    pg_connection *on = NULL;
    PGresult *answer = NULL;
    pthread_mutex_lock(&store->lock);
    int known = store->identity[0] != 0;
    pthread_mutex_unlock(&store->lock);
    if (known)
        return SEMEL_OK;
    semel_status status = pg_store_borrow(&on, store, err);
    if (status)
        return status;
    pg_query q = pg_start(on, ST_IDENTITY);
    status = pg_execute_alone(&answer, &q, "reading the database's identity", err);
    pg_store_give_back(store, on);
    if (!status && PQntuples(answer) == 1 && PQgetlength(answer, 0, 0) < IDENTITY_TEXT) {
        pthread_mutex_lock(&store->lock);
        memcpy(store->identity, PQgetvalue(answer, 0, 0), (size_t)PQgetlength(answer, 0, 0) + 1);
        pthread_mutex_unlock(&store->lock);
    }
    PQclear(answer);
    return status;
}

/* The caller's transaction is open, so a failed statement would spoil it: the savepoint comes
 * first. */
static semel_status enter_joined(postgres_unit *unit, semel_error *err)
{
    PGresult *answer = NULL;
    pg_enqueue_plain(unit->on, ST_SAVEPOINT);
    pg_query q = pg_start(unit->on, ST_IDENTITY);
    semel_status status = pg_execute(&answer, &q, "joining a transaction", err);
    pthread_mutex_lock(&unit->store->lock);
    int same = !status && PQntuples(answer) == 1 &&
               strcmp(PQgetvalue(answer, 0, 0), unit->store->identity) == 0;
    pthread_mutex_unlock(&unit->store->lock);
    if (same)
        (void)snprintf(unit->on->patience, sizeof unit->on->patience, "%s",
                       PQgetvalue(answer, 0, 1));
    PQclear(answer);
    if (same)
        return SEMEL_OK;
    pg_enqueue_plain(unit->on, ST_ROLLBACK_TO);
    pg_enqueue_plain(unit->on, ST_RELEASE);
    (void)pg_flush(unit->on, 0, NULL, "leaving a transaction", NULL);
    return status ? status
                  : semel_fail(err, SEMEL_EINVAL,
                               "the transaction to join is open on another database than the "
                               "store's");
}

semel_status postgres_join(void *store_state, void *unit_state, void *native, semel_error *err)
{
    postgres_store *store = store_state;
    postgres_unit *unit = unit_state;
    if (PQtransactionStatus(native) != PQTRANS_INTRANS ||
        PQpipelineStatus(native) != PQ_PIPELINE_OFF)
        return semel_fail(err, SEMEL_EMISUSE,
                          "to join, a transaction must be open on the connection, not failed, "
                          "and not in pipeline mode");
    semel_status status = know_identity(store, err);
    if (status)
        return status;
    unit->store = store;
    unit->on = &unit->borrowed;
    unit->joined = unit->begun = 1;
    pg_connection_borrow(unit->on, native, store->texts, store->limits);
    status = sql_joined_add(&unit->place, &store->joined, &store->lock, native, err);
    if (status)
        return status;
    status = enter_joined(unit, err);
    if (status) {
        sql_joined_remove(&unit->place, &store->joined, &store->lock);
        pg_connection_return(unit->on);
    }
    unit->shared = 1;
    return status;
}

semel_status semel_unit_join_postgres(semel_unit **out, semel_store *store, struct pg_conn *native,
                                      semel_error *err)
{
    return semel_unit_join_native(out, store, "postgres", native, err);
}
