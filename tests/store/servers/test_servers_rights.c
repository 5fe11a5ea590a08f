/* The roles of docs/RIGHTS.md, made by its own statements: each can do its work, and the store
 * finds a right that is missing. The names of roles are the whole server's: each test has its
 * own. */
#include "support/base/check.h"
#include "support/fixture/fixture.h"
#include "support/servers/server_each.h"

#include <semel/operate.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TEXT_ROOM = 65536 };

typedef struct rights_case {
    store_place place;
    server_kind kind;
    char where[128]; /* the schema or the database */
    char suffix[32]; /* of all names of roles */
} rights_case;

/* --- the document ----------------------------------------------------------------------------- */

static void read_block(char out[TEXT_ROOM], const char *first_line)
{
    char *text = calloc(1, TEXT_ROOM), begin[64];
    FILE *file = fopen(SEMEL_SOURCE_DIR "/docs/RIGHTS.md", "r");
    assert_non_null(file);
    assert_true(fread(text, 1, TEXT_ROOM - 1, file) > 0);
    (void)fclose(file);
    (void)snprintf(begin, sizeof begin, "```sql\n-- %s\n", first_line);
    char *start = strstr(text, begin);
    assert_non_null(start);
    start += strlen(begin);
    *strstr(start, "```") = 0;
    (void)snprintf(out, TEXT_ROOM, "%s", start);
    free(text);
}

static int begins_word(const char *at, const char *word)
{
    return strncmp(at, word, strlen(word)) == 0;
}

/* The names of the document become those of the test. */
static void fill(char out[TEXT_ROOM], const rights_case *c, const char *text)
{
    static const char *const roles[] = {"semel_application", "semel_relay", "semel_sweeper",
                                        "semel_operator",    "semel_run",   "shop_app",
                                        "shop_ops"};
    size_t len = 0;
    while (*text) {
        const char *role = NULL;
        for (size_t i = 0; !role && i < sizeof roles / sizeof *roles; i++)
            role = begins_word(text, roles[i]) ? roles[i] : NULL;
        if (role) {
            len += (size_t)snprintf(out + len, TEXT_ROOM - len, "%s%s", role, c->suffix);
            text += strlen(role);
        } else if (begins_word(text, "semel.") || begins_word(text, "shop.") ||
                   begins_word(text, "semel TO")) {
            len += (size_t)snprintf(out + len, TEXT_ROOM - len, "%s", c->where);
            text += *text == 's' && text[1] == 'h' ? 4 : 5;
        } else
            out[len++] = *text++;
        assert_true(len < TEXT_ROOM - 64);
    }
    out[len] = 0;
}

static void run_filled(const rights_case *c, const char *text)
{
    char *filled = calloc(1, TEXT_ROOM);
    fill(filled, c, text);
    server_run(c->place.url, filled);
    free(filled);
}

/* --- surroundings ----------------------------------------------------------------------------- */

static void find_where(rights_case *c)
{
    const char *at = c->kind == SERVER_POSTGRES ? strstr(c->place.url, "schema=") + 7
                                                : strrchr(c->place.url, '/') + 1;
    (void)snprintf(c->where, sizeof c->where, "%.*s", (int)strcspn(at, "&?"), at);
}

/* An account that has this role and no other. */
static void add_account(const rights_case *c, const char *role)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql,
                   c->kind == SERVER_POSTGRES ? "CREATE ROLE only_%s LOGIN; GRANT %s TO only_%s"
                                              : "CREATE USER only_%s; GRANT %s TO only_%s",
                   role, role, role);
    run_filled(c, sql);
    if (c->kind == SERVER_MARIADB) {
        (void)snprintf(sql, sizeof sql, "SET DEFAULT ROLE %s FOR only_%s", role, role);
        run_filled(c, sql);
    }
}

static rights_case *open_case(void **state)
{
    static int number;
    rights_case *c = calloc(1, sizeof *c);
    char *block = calloc(1, TEXT_ROOM);
    semel_store *store = NULL;
    c->kind = (server_kind)(uintptr_t)*state;
    (void)snprintf(c->suffix, sizeof c->suffix, "_%d_%d", (int)getpid(), ++number);
    store_place_open_shared(&c->place, c->kind);
    find_where(c);
    OK(semel_store_open(&store, c->place.url, NULL, &last_error));
    OK(semel_store_migrate(store, &last_error));
    semel_store_close(store);
    read_block(block, c->kind == SERVER_POSTGRES ? "PostgreSQL" : "MariaDB");
    run_filled(c, block);
    free(block);
    return c;
}

static void drop_roles(const rights_case *c)
{
    static const char *const roles[] = {"semel_application", "semel_relay", "semel_sweeper",
                                        "semel_operator",    "shop_app",    "shop_ops"};
    char sql[256];
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        int is_user = begins_word(roles[i], "shop");
        if (c->kind == SERVER_POSTGRES)
            (void)snprintf(sql, sizeof sql, "DROP OWNED BY %s; DROP ROLE %s", roles[i], roles[i]);
        else
            (void)snprintf(sql, sizeof sql, "DROP %s %s", is_user ? "USER" : "ROLE", roles[i]);
        run_filled(c, sql);
    }
}

static void drop_account(const rights_case *c, const char *role)
{
    char sql[256];
    (void)snprintf(sql, sizeof sql, "DROP %s only_%s", c->kind == SERVER_POSTGRES ? "ROLE" : "USER",
                   role);
    run_filled(c, sql);
}

static void close_case(rights_case *c)
{
    drop_roles(c);
    if (c->kind == SERVER_MARIADB)
        run_filled(c, "DROP ROLE semel_run");
    store_place_close(&c->place);
    free(c);
}

enum { ACCOUNT_URL_ROOM = SERVER_URL_ROOM + 128 };

static void name_account(char url[ACCOUNT_URL_ROOM], const rights_case *c, const char *account)
{
    char *name = calloc(1, TEXT_ROOM);
    const char *scheme_end = strstr(c->place.url, "://") + 3, *at = strchr(scheme_end, '@');
    fill(name, c, account);
    (void)snprintf(url, ACCOUNT_URL_ROOM, "%.*s%s%s", (int)(scheme_end - c->place.url),
                   c->place.url, name, at);
    free(name);
}

/* The store as an account sees it. */
static semel_store *open_as(const rights_case *c, const char *account)
{
    char url[ACCOUNT_URL_ROOM];
    semel_store *store = NULL;
    name_account(url, c, account);
    OK(semel_store_open(&store, url, NULL, &last_error));
    OK(semel_store_migrate(store, &last_error)); /* nothing is to do, and nothing more is needed */
    return store;
}

static semel_store *open_only(const rights_case *c, const char *role)
{
    char account[128];
    add_account(c, role);
    (void)snprintf(account, sizeof account, "only_%s", role);
    return open_as(c, account);
}

/* --- work ------------------------------------------------------------------------------------- */

static semel_status fail_on_bad(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *err)
{
    (void)unit, (void)context;
    return memcmp(message->id.data, "bad", 3) == 0 ? semel_fail(err, SEMEL_EHANDLER, "no tax rate")
                                                   : SEMEL_OK;
}

static void receives(semel_inbox *inbox, const char *id, semel_outcome expected)
{
    semel_outcome outcome = SEMEL_UNDECIDED;
    semel_message message = {
        .size = sizeof message, .id = {id, strlen(id)}, .type = "order.placed"};
    (void)semel_inbox_receive(&outcome, inbox, &message, fail_on_bad, NULL, &last_error);
    if (outcome != expected)
        fail_msg("%s: outcome %d: %s", id, (int)outcome, last_error.text);
}

static void work_as_application(semel_store *store)
{
    semel_outbox *outbox = NULL;
    semel_message sent = {.size = sizeof sent, .id = {"s-1", 3}, .type = "order.paid"};
    OK(semel_outbox_open(&outbox, store, "mail", &last_error));
    OK(semel_outbox_send(outbox, &sent, &last_error));
    sent.group = "g";
    sent.id = (semel_bytes){"s-2", 3};
    OK(semel_outbox_send(outbox, &sent, &last_error));
    for (int claims = 0; claims < 2; claims++) {
        semel_inbox_options options = {.size = sizeof options,
                                       .attempts_max = 1,
                                       .mode = claims ? SEMEL_CLAIM : SEMEL_TRANSACTION};
        semel_inbox *inbox = NULL;
        OK(semel_inbox_open(&inbox, store, claims ? "claims" : "orders", &options, &last_error));
        receives(inbox, "m-1", SEMEL_PROCESSED);
        receives(inbox, "m-1", SEMEL_DUPLICATE);
        receives(inbox, "bad", SEMEL_DEAD);
        semel_inbox_close(inbox);
    }
    semel_outbox_close(outbox);
}

static void relay_with(semel_store *store, semel_transport *broker, size_t expected)
{
    semel_relay_options options = {
        .size = sizeof options, .keep_sent_ms = 3600000, .attempts_max = 1};
    semel_outbox *outbox = NULL;
    semel_relay *relay = NULL;
    size_t sent = 0, sum = 0;
    OK(semel_outbox_open(&outbox, store, "mail", &last_error));
    OK(semel_relay_open(&relay, outbox, broker, &options, &last_error));
    do {
        OK(semel_relay_step(&sent, relay, 0, &last_error));
        sum += sent;
    } while (sent);
    assert_int_equal(sum, expected);
    semel_relay_close(relay);
    semel_outbox_close(outbox);
}

static void work_as_relay(semel_store *store)
{
    semel_transport *broker = NULL;
    OK(semel_test_recorder_open(&broker, &last_error));
    relay_with(store, broker, 3);
    semel_transport_close(broker);
}

static void work_as_sweeper(semel_store *store)
{
    semel_inbox *inbox = NULL;
    semel_dead_filter all = {.size = sizeof all};
    size_t swept = 0;
    int more = 1;
    OK(semel_inbox_open(&inbox, store, "orders",
                        &(semel_inbox_options){.size = sizeof(semel_inbox_options),
                                               .attempts_max = 1,
                                               .retention_ms = 1},
                        &last_error));
    while (more)
        OK(semel_inbox_sweep(&swept, &more, inbox, 0, &last_error));
    OK(semel_dead_sweep(&swept, &more, store, &all, 0, 0, &last_error));
    semel_inbox_close(inbox);
}

static semel_status keep_id(const semel_dead *dead, void *context, semel_error *err)
{
    (void)err;
    *(int64_t *)context = dead->id;
    return SEMEL_OK;
}

static void work_as_operator(semel_store *store)
{
    semel_dead_filter all = {.size = sizeof all};
    semel_audit entry = {
        .size = sizeof entry, .who = "ops@host", .what = "dead discard", .result = ""};
    semel_inbox *inbox = NULL;
    int64_t id = 0;
    size_t removed = 0;
    OK(semel_dead_list(store, &all, keep_id, &id, &last_error));
    assert_true(id > 0);
    OK(semel_audit_write(&entry, store, &last_error));
    OK(semel_dead_set_retry(store, id, SEMEL_RETRY_NONE, SEMEL_RETRY_ASKED, "", &last_error));
    OK(semel_dead_discard(store, id, SEMEL_DISCARD_FORGET_KEY, &last_error));
    entry.result = "1 discarded";
    OK(semel_audit_write(&entry, store, &last_error));
    OK(semel_inbox_open(
        &inbox, store, "orders",
        &(semel_inbox_options){.size = sizeof(semel_inbox_options), .attempts_max = 1},
        &last_error));
    OK(semel_inbox_purge(&removed, inbox, 0, &last_error));
    semel_inbox_close(inbox);
}

/* The functions for SQL, by the account's own session. */
static void call_functions(const rights_case *c, const char *role)
{
    char url[ACCOUNT_URL_ROOM], account[128], sql[256];
    (void)snprintf(account, sizeof account, "only_%s", role);
    name_account(url, c, account);
    (void)snprintf(sql, sizeof sql,
                   "SELECT CASE WHEN %s.semel_receive('orders', 'by-sql') THEN 1 ELSE 0 END",
                   c->where);
    assert_int_equal(server_number(url, sql), 1);
    (void)snprintf(sql, sizeof sql, "SELECT LENGTH(%s.semel_send('mail', 'order.paid', 'x'))",
                   c->where);
    assert_int_equal(server_number(url, sql), 36);
}

/* --- tests ------------------------------------------------------------------------------------ */

/* Each does its work with the role that it needs; together they are what a store goes through. */
static void each_role_can_do_its_work(void **state)
{
    static const struct {
        const char *role;
        void (*work)(semel_store *store);
    } all[] = {{"semel_application", work_as_application},
               {"semel_relay", work_as_relay},
               {"semel_operator", work_as_operator},
               {"semel_sweeper", work_as_sweeper}};
    rights_case *c = open_case(state);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        semel_store *store = open_only(c, all[i].role);
        all[i].work(store);
        semel_store_close(store);
        if (i == 0)
            call_functions(c, all[i].role);
        drop_account(c, all[i].role);
    }
    close_case(c);
}

typedef struct missing_rights {
    int count;
    char text[512];
    char fix[512];
} missing_rights;

static semel_status keep_missing(const semel_finding *finding, void *context, semel_error *err)
{
    missing_rights *to = context;
    (void)err;
    if (strcmp(finding->subject, "rights") == 0 && finding->severity != SEMEL_SEVERITY_OK) {
        to->count++;
        (void)snprintf(to->text, sizeof to->text, "%s", finding->text);
        (void)snprintf(to->fix, sizeof to->fix, "%s", finding->fix);
    }
    return SEMEL_OK;
}

static missing_rights missing(semel_store *store)
{
    missing_rights found = {0};
    OK(semel_store_inspect(store, keep_missing, &found, &last_error));
    return found;
}

static void expect_mended(const rights_case *c, const char *table, const char *right,
                          const char *role)
{
    char revoke[512];
    (void)snprintf(revoke, sizeof revoke, "REVOKE %s ON %s.semel_%s FROM %s%s", right, c->where,
                   table, role, c->suffix);
    server_run(c->place.url, revoke);
    semel_store *store = open_as(c, "shop_app");
    missing_rights found = missing(store);
    assert_int_equal(found.count, 1);
    assert_non_null(strstr(found.text, right));
    assert_non_null(strstr(found.text, table));
    semel_store_close(store);
    server_run(c->place.url, found.fix);
    store = open_as(c, "shop_app");
    assert_int_equal(missing(store).count, 0);
    semel_store_close(store);
}

/* Of rights that only one of the roles of an account has. */
static void a_missing_right_is_found_and_mended(void **state)
{
    rights_case *c = open_case(state);
    semel_store *store = open_as(c, "shop_app");
    missing_rights found = missing(store);
    if (found.count)
        fail_msg("%s", found.text);
    semel_store_close(store);
    expect_mended(c, "marker", "INSERT", "semel_application");
    expect_mended(c, "outbox", "DELETE", "semel_relay");
    expect_mended(c, "group", "UPDATE", "semel_relay");
    expect_mended(c, "dead", "DELETE", "semel_sweeper");
    close_case(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {ON_EACH(each_role_can_do_its_work, NULL, NULL),
                                       ON_EACH(a_missing_right_is_found_and_mended, NULL, NULL)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
