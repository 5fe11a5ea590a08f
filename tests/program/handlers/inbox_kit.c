/* See inbox_kit.h. */
#include "inbox_kit.h"

#include "program/config/tree.h"
#include "support/servers/server_each.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

/* The tables of the application are in the test's own schema, too. */
static void set_search_path(store_place *where)
{
    const char *schema = strstr(where->url, "schema=");
    size_t len = strlen(where->url);
    if (schema)
        (void)snprintf(where->url + len, sizeof where->url - len, "&options=-csearch_path%%3D%.*s",
                       (int)strcspn(schema + 7, "&"), schema + 7);
}

int inbox_kit_setup(void **state)
{
    inbox_kit *k = calloc(1, sizeof *k);
    store_place where, opened;
    if (*state)
        store_place_open_shared(&where, kind_of_state(state));
    else
        store_place_open(&where, PLACE_SQLITE);
    opened = where;
    set_search_path(&opened);
    if (*state)
        fixture_open(&k->base, &opened, NULL);
    else
        fixture_open_with_clock(&k->base, &opened, 42, 0, NULL);
    k->base.place = where;
    OK(semel_store_migrate(k->base.store, &last_error));
    k->all.store_url = k->base.place.url;
    k->declared.name = "payments";
    k->declared.options = (semel_inbox_options){.size = sizeof k->declared.options};
    k->queues[0] = (queue_config){.name = "shipping"};
    k->all.queues = k->queues;
    k->all.queue_count = 1;
    *state = k;
    return 0;
}

const config_node *inbox_kit_yaml(inbox_kit *k, const char *yaml)
{
    tree_fault fault = {0};
    config_source *source = region_alloc(&k->memory, sizeof *source);
    *source = (config_source){.name = "test", .text = yaml, .len = strlen(yaml), .first_line = 1};
    const config_node *root = tree_read(&k->memory, source, NULL, NULL, &fault);
    if (!root)
        fail_msg("%s: %s", yaml, fault.text);
    return root;
}

static void close_handler(void *opened)
{
    handler_close(opened);
}

void inbox_kit_start(inbox_kit *k)
{
    OK(handler_open(&k->handler, &k->all, &k->declared, &last_error));
    fixture_keep(&k->base, close_handler, k->handler);
    semel_inbox_options *options = &k->declared.options;
    options->mode = handler_class_of(k->declared.handler)->mode;
    if (!options->key)
        options->key = "json:/order_id";
    k->inbox = fixture_inbox(&k->base, k->declared.name, options);
    k->outbox = fixture_outbox(&k->base, "shipping");
}

int inbox_kit_teardown(void **state)
{
    inbox_kit *k = *state;
    store_place where = k->base.place;
    fixture_close(&k->base);
    store_place_close(&where);
    region_free(&k->memory);
    free(k);
    return 0;
}

void inbox_kit_receive(semel_status status, semel_outcome outcome, inbox_kit *k, const char *body,
                       const char *file, int line)
{
    semel_message message = {.size = sizeof message,
                             .id = semel_str("m-1"),
                             .type = "order.placed",
                             .source = "shop",
                             .content_type = "application/json",
                             .body = semel_str(body)};
    check_receive(status, outcome, k->inbox, &message, handler_run, k->handler, file, line);
}

static int64_t lite_count(const char *url, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_open(url + strlen("sqlite:"), &db), SQLITE_OK);
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return number;
}

int64_t inbox_kit_number(inbox_kit *k, const char *sql)
{
    const char *url = k->base.place.url;
    return k->base.place.kind == PLACE_SQLITE ? lite_count(url, sql) : server_number(url, sql);
}
