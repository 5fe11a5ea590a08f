/* Units inside a transaction that the caller has open, on the caller's connection.
 *
 * A savepoint is the unit; the transaction stays the caller's. Nothing of the caller's session is
 * changed. Its connection may not take several statements in one text: then each is a round
 * trip. */
#include "store/mariadb/mariadb.h"

#include <mysqld_error.h>
#include <semel/mariadb.h>
#include <string.h>

static semel_status keep_identity(const maria_row *r, void *context, semel_error *err)
{
    char *identity = context;
    semel_bytes found = maria_column_bytes(r, 0);
    (void)err;
    if (found.data && found.len < IDENTITY_TEXT)
        memcpy(identity, found.data, found.len);
    return SEMEL_OK;
}

static void execute_identity(maria_connection *on, char identity[IDENTITY_TEXT])
{
    memset(identity, 0, IDENTITY_TEXT);
    maria_query q = maria_enqueue(on, ST_IDENTITY);
    maria_step *s = maria_end(&q);
    s->call = keep_identity;
    s->context = identity;
}

/* Of our own database: read once. */
static semel_status know_identity(mariadb_store *store, semel_error *err)
{
    char identity[IDENTITY_TEXT];
    maria_connection *on = NULL;
    pthread_mutex_lock(&store->lock);
    int known = store->identity[0] != 0;
    pthread_mutex_unlock(&store->lock);
    if (known)
        return SEMEL_OK;
    semel_status status = maria_borrow_pooled(&on, store, err);
    if (status)
        return status;
    execute_identity(on, identity);
    status = maria_flush(on, NULL, "reading the database's identity", err);
    if (!on->lost)
        maria_push_rollback(on); /* or its snapshot would be the next unit's */
    maria_give_back(store, on);
    if (!status && !identity[0])
        status = semel_fail(err, SEMEL_ESCHEMA, "semel's tables are not whole: %smeta` is empty",
                            store->name);
    if (status)
        return status;
    pthread_mutex_lock(&store->lock);
    memcpy(store->identity, identity, IDENTITY_TEXT);
    pthread_mutex_unlock(&store->lock);
    return SEMEL_OK;
}

/* Without autocommit a transaction begins by itself with the first statement, which may be ours. */
static semel_status check_joined(const MYSQL *my, semel_error *err)
{
    unsigned status = my ? my->server_status : 0;
    if (!my || my->status != MYSQL_STATUS_READY || status & SERVER_MORE_RESULTS_EXIST)
        return semel_fail(err, SEMEL_EMISUSE,
                          "to join, the connection must be there and all its results be read");
    if (!(status & SERVER_STATUS_IN_TRANS) && status & SERVER_STATUS_AUTOCOMMIT)
        return semel_fail(err, SEMEL_EMISUSE,
                          "no transaction is open on that connection: run START TRANSACTION on it "
                          "first");
    return SEMEL_OK;
}

static int is_elsewhere(unsigned number)
{
    return number == ER_NO_SUCH_TABLE || number == ER_BAD_DB_ERROR ||
           number == ER_DBACCESS_DENIED_ERROR || number == ER_TABLEACCESS_DENIED_ERROR;
}

static semel_status enter_caller(mariadb_unit *unit, semel_error *err)
{
    char identity[IDENTITY_TEXT];
    maria_failure failed;
    execute_identity(unit->on, identity);
    semel_status status = maria_flush(unit->on, &failed, "joining a transaction", err);
    if (status && !is_elsewhere(failed.number))
        return status;
    if (status || strcmp(identity, unit->store->identity) != 0)
        return semel_fail(err, SEMEL_EINVAL,
                          "that connection is on another server than the store's: a marker there "
                          "would not commit with the work");
    maria_enqueue_plain(unit->on, ST_JOIN);
    status = maria_flush(unit->on, NULL, "joining a transaction", err);
    if (!status && maria_execute(unit->on, "SAVEPOINT semel_live"))
        status = maria_fail(unit->on, "joining a transaction", err);
    return status;
}

semel_status mariadb_join(void *store_state, void *unit_state, void *native, semel_error *err)
{
    mariadb_store *store = store_state;
    mariadb_unit *unit = unit_state;
    semel_status status = check_joined(native, err);
    if (!status)
        status = know_identity(store, err); /* and no further in a child of our process */
    if (status)
        return status;
    unit->store = store;
    unit->on = &unit->borrowed;
    unit->joined = 1;
    maria_borrow(unit->on, native, store->texts, store->limits, store->packet_max);
    status = sql_joined_add(&unit->place, &store->joined, &store->lock, native, err);
    if (status) {
        maria_return(unit->on);
        return status;
    }
    status = enter_caller(unit, err);
    if (status) {
        sql_joined_remove(&unit->place, &store->joined, &store->lock);
        maria_return(unit->on);
    }
    return status;
}

semel_status semel_unit_join_mariadb(semel_unit **out, semel_store *store, struct st_mysql *native,
                                     semel_error *err)
{
    return semel_unit_join_native(out, store, "mariadb", native, err);
}

struct st_mysql *semel_unit_mariadb(semel_unit *unit)
{
    return semel_unit_native(unit, "mariadb");
}
