/* For `semel doctor`: what DynamoDB says of the table, and what that means. Changes nothing. */
#include "base/seam.h"
#include "store/dynamodb/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { TEXT_ROOM = 400 };

typedef struct telling {
    semel_finding_visitor *visitor;
    void *context;
    semel_error *err;
    semel_status status;
} telling;

__attribute__((format(printf, 5, 6))) static void tell(telling *to, semel_severity severity,
                                                       const char *subject, const char *fix,
                                                       const char *format, ...)
{
    char text[TEXT_ROOM];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    semel_finding found = {
        .size = sizeof found, .severity = severity, .subject = subject, .text = text, .fix = fix};
    if (!to->status)
        to->status = to->visitor(&found, to->context, to->err);
}

static void tell_table(telling *to, const dynamo_store *store, const dynamo_table *table)
{
    tell(to, SEMEL_SEVERITY_OK, "store", "", "DynamoDB, table %s in %s, at %s", store->at.table,
         aws_region(store->aws), aws_endpoint(store->aws));
    if (!table->active)
        tell(to, SEMEL_SEVERITY_ERROR, "store", "wait until it is ACTIVE",
             "the table is not ready to be used");
    tell(to, SEMEL_SEVERITY_OK, "limits", "",
         table->on_demand ? "the table is paid by request (on-demand)"
                          : "the table has provisioned capacity: requests beyond it are throttled");
    if (!table->is_protected)
        tell(to, SEMEL_SEVERITY_WARNING, "store",
             "aws dynamodb update-table --deletion-protection-enabled --table-name TABLE",
             "deletion protection is off: one call removes the table, and semel forgets what it "
             "has seen");
}

static void tell_durability(telling *to, const dynamo_table *table)
{
    tell(to, SEMEL_SEVERITY_OK, "durability", "",
         "commits are stored in several availability zones before they are confirmed");
    if (table->replicas)
        tell(to, SEMEL_SEVERITY_WARNING, "durability",
             "let all processes of semel use this region, or use a table without replicas",
             "it is a global table (%zu replicas): processes in two regions can both be first with "
             "a message",
             table->replicas);
}

static void tell_ttl(telling *to, dynamo_store *store)
{
    int enabled = 0;
    semel_error why;
    if (dynamo_has_ttl(&enabled, store, &why))
        tell(to, SEMEL_SEVERITY_WARNING, "rights", "allow dynamodb:DescribeTimeToLive",
             "the table's TTL cannot be looked at: %.300s", why.text);
    else if (enabled)
        tell(to, SEMEL_SEVERITY_OK, "schema", "", "the table's TTL attribute is x");
    else
        tell(to, SEMEL_SEVERITY_WARNING, "schema",
             "run `semel migrate up` with the right dynamodb:UpdateTimeToLive",
             "the table has no TTL on the attribute x, so only sweeps remove what is old");
}

static void tell_clock(telling *to, dynamo_store *store)
{
    enum { TOLERATED_MS = 60000 };
    int64_t now_ms = 0;
    uint32_t error_ms = 0;
    semel_error why;
    if (dynamo_driver.now(store, &now_ms, &error_ms, &why)) {
        tell(to, SEMEL_SEVERITY_ERROR, "clock", "", "%.300s", why.text);
        return;
    }
    int64_t ahead_ms = seam_wall_ms(store->settings.seam) - now_ms;
    int64_t apart_ms = ahead_ms < 0 ? -ahead_ms : ahead_ms;
    tell(to, apart_ms > TOLERATED_MS ? SEMEL_SEVERITY_WARNING : SEMEL_SEVERITY_OK, "clock",
         apart_ms > TOLERATED_MS ? "set this host's clock (NTP)" : "",
         "this host's clock is %" PRId64 " ms %s DynamoDB's, which is known to %u ms", apart_ms,
         ahead_ms < 0 ? "behind" : "ahead of", error_ms);
}

semel_status dynamo_inspect(void *state, semel_finding_visitor *visitor, void *context,
                            semel_error *err)
{
    dynamo_store *store = state;
    dynamo_table table;
    telling to = {.visitor = visitor, .context = context, .err = err};
    semel_status status = dynamo_describe(&table, store, err);
    if (status)
        return status;
    if (!table.found) {
        tell(&to, SEMEL_SEVERITY_ERROR, "store", "run `semel migrate up`",
             "there is no table %s in %s, at %s", store->at.table, aws_region(store->aws),
             aws_endpoint(store->aws));
        return to.status;
    }
    tell_table(&to, store, &table);
    tell_durability(&to, &table);
    tell_ttl(&to, store);
    tell_clock(&to, store);
    return to.status;
}
