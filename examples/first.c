#include <semel/semel.h>
#include <semel/sqlite.h>
#include <stdio.h>

static semel_status charge(semel_unit *unit, const semel_message *message, void *context, semel_error *err)
{
    (void)message, (void)context;
    int code = sqlite3_exec(semel_unit_sqlite(unit), "INSERT INTO charge (cents) VALUES (990)", 0, 0, 0);
    return code ? semel_fail(err, SEMEL_EHANDLER, "no charge: SQLite says %d", code) : SEMEL_OK;
}

int main(void)
{
    semel_store *store = NULL;
    semel_inbox *inbox = NULL;
    semel_unit *setup = NULL;
    semel_outcome first = SEMEL_UNDECIDED, second = SEMEL_UNDECIDED;
    semel_error err;
    semel_message payment = {.size = sizeof payment, .id = semel_str("evt_1"), .type = "payment"};
    if (semel_store_open(&store, "sqlite:first.db", NULL, &err) || semel_store_migrate(store, &err) ||
        semel_unit_begin(&setup, store, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    sqlite3_exec(semel_unit_sqlite(setup), "CREATE TABLE IF NOT EXISTS charge (cents INTEGER)", 0, 0, 0);
    if (semel_unit_commit(setup, &err) || semel_inbox_open(&inbox, store, "payments", NULL, &err) ||
        semel_inbox_receive(&first, inbox, &payment, charge, NULL, &err) ||
        semel_inbox_receive(&second, inbox, &payment, charge, NULL, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    printf("first copy: %s, second copy: %s\n", semel_outcome_name(first), semel_outcome_name(second));
    semel_inbox_close(inbox);
    semel_store_close(store);
    return 0;
}
