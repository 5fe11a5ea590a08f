/* See mariadb_kit.h. */
#include "mariadb_kit.h"

static int open_case(void **state, case_mode mode)
{
    server_place shared;
    server_shape shape = {.kind = SERVER_MARIADB, .mode = mode};
    server_case *c = calloc(1, sizeof *c);
    server_find(&shared, SERVER_MARIADB);
    case_make(c, &shared, &shape, "");
    case_open(c, CASE_BUSY_MS, NULL);
    *state = c;
    return 0;
}

int by_transaction(void **state)
{
    return open_case(state, BY_TRANSACTION);
}

int by_queue(void **state)
{
    return open_case(state, BY_QUEUE);
}

int by_claim(void **state)
{
    return open_case(state, BY_CLAIM);
}

int by_batch(void **state)
{
    return open_case(state, BY_BATCH);
}

int close_case(void **state)
{
    case_remove(*state);
    free(*state);
    return 0;
}

MYSQL *connect_to(const server_case *c, const char *database, unsigned long flags)
{
    char host[SERVER_HOST_ROOM];
    unsigned port;
    MYSQL *my = mysql_init(NULL);
    server_address(c->base.place.url, host, &port);
    if (!mysql_real_connect(my, host, "root", NULL, database, port, NULL, flags))
        fail_msg("%s", mysql_error(my));
    return my;
}

void run_sql(MYSQL *my, const char *sql, int line)
{
    if (mysql_query(my, sql))
        fail_msg("line %d, %s: %s", line, sql, mysql_error(my));
    do
        mysql_free_result(mysql_store_result(my));
    while (mysql_next_result(my) == 0);
}

int64_t effects(const server_case *c)
{
    return case_number(c, "SELECT count(*) FROM effect");
}

semel_unit *take(server_case *c, semel_message *message, const char *id)
{
    semel_unit *unit = NULL;
    semel_outcome out;
    *message = text_message(id, "10 EUR");
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    OK(semel_unit_claim(&out, unit, c->inbox, message, &last_error));
    assert_int_equal(out, SEMEL_CLAIMED);
    return unit;
}
