/* The configurations that people write, as C structures. */
#include "program/config/complete.h"
#include "program/config/load.h"

#include <setjmp.h> /* cmocka.h wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define GOOD SEMEL_SOURCE_DIR "/tests/program/config/good/"

static config *load_good(const char *path)
{
    diagnostics found = {0};
    config *all = NULL;
    const load_options options = {.path = path};
    (void)config_load(&all, &options, &found);
    diagnostic_print(stderr, &found, path, (diagnostic_form){0});
    assert_int_equal(found.errors, 0);
    assert_non_null(all);
    diagnostic_free(&found);
    return all;
}

static void the_config_of_init_is_read(void **state)
{
    (void)state;
    config *all = load_good(GOOD "init.yaml");
    assert_string_equal(all->store_url,
                        "sqlite:" SEMEL_SOURCE_DIR "/tests/program/config/good/shop.db");
    assert_int_equal(all->store.busy_ms, 5000);
    assert_int_equal(all->setup.count, 1);
    assert_int_equal(all->queue_count, 1);
    assert_null(all->queues[0].url);
    assert_true(all->queues[0].is_read);
    assert_false(all->queues[0].is_written);
    const inbox_config *payments = config_inbox(all, "payments");
    assert_int_equal(payments->handler, HANDLER_SQL);
    assert_int_equal(payments->options.mode, SEMEL_QUEUED);
    assert_string_equal(payments->options.key, "json:/order_id");
    assert_true(payments->options.retention_ms == UINT64_C(14) * 86400000);
    assert_string_equal(payments->types.items[0], "order.placed");
    assert_null(payments->types.items[1]);
    const inbox_config *mail = config_inbox(all, "mail.receipt");
    assert_int_equal(mail->handler, HANDLER_EXEC);
    assert_int_equal(mail->options.mode, SEMEL_CLAIM);
    assert_string_equal(mail->options.key, "id");
    assert_string_equal(mail->exec.command.items[0], GOOD "./send-email.sh");
    assert_int_equal(all->test_count, 1);
    assert_string_equal(all->tests[0].name, "three copies charge once");
    assert_int_equal(all->tests[0].given[0].copies, 3);
    assert_int_equal(all->tests[0].inboxes[0].words.count, 3);
    assert_string_equal(all->tests[0].sql[0].name, "SELECT count(*) FROM ledger");
    assert_string_equal(all->tests[0].sql[0].value->text, "1");
    assert_true(all->tests[0].dead == -1);
    config_free(all);
}

static void the_shortest_config_is_read(void **state)
{
    (void)state;
    config *all = load_good(GOOD "minimal.yaml");
    assert_int_equal(all->inbox_count, 1);
    assert_int_equal(all->inboxes[0].sql.count, 1);
    assert_int_equal(all->outbox_count, 0);
    config_free(all);
}

static void the_config_with_every_section_is_read(void **state)
{
    (void)state;
    config *all = load_good(GOOD "full.yaml");
    assert_string_equal(all->store_url, "postgres://shop:canary-pg.password@db.internal/"
                                        "shop?schema=semel&pool=8");
    const queue_config *returns = config_queue(all, "returns");
    assert_int_equal(returns->consumer.workers, 4);
    assert_int_equal(returns->consumer.order, SEMEL_ORDER_GROUP);
    assert_int_equal(returns->consumer.backoff_max_ms, 60000);
    const inbox_config *mail = config_inbox(all, "mail.receipt");
    assert_int_equal(mail->options.attempts_max, 8);
    assert_int_equal(mail->timeout_ms, 20000);
    assert_true(mail->options.retention_ms == UINT64_C(3) * 86400000);
    assert_string_equal(mail->faults, "alarms");
    assert_int_equal(mail->require, SEMEL_GRADE_EFFECTIVELY_ONCE);
    assert_true(mail->exec.limits.memory_bytes == 256 << 20);
    assert_true(mail->exec.limits.cpu_ms == 10000);
    const inbox_config *payments = config_inbox(all, "payments");
    assert_int_equal(payments->require, SEMEL_GRADE_EXACTLY_ONCE_EFFECTS);
    assert_int_equal(payments->options.attempts_max, 5);
    assert_int_equal(payments->send_count, 1);
    assert_int_equal(payments->sends[0].body->kind, NODE_MAP);
    const inbox_config *copy = config_inbox(all, "returns.copy");
    assert_string_equal(config_handler_name(copy), "send");
    assert_int_equal(copy->options.mode, SEMEL_QUEUED);
    const inbox_config *fraud = config_inbox(all, "fraud");
    assert_int_equal(fraud->worker.processes, 2);
    assert_string_equal(fraud->worker.command.items[0], "python3");
    assert_true(fraud->worker.limits.output_bytes == 64 << 10);
    const inbox_config *invoices = config_inbox(all, "invoices");
    assert_string_equal(invoices->http.headers.items[0].value, "Bearer canary-invoice.token");
    assert_int_equal(invoices->options.mode, SEMEL_CLAIM);
    assert_int_equal(all->outbox_count, 3);
    assert_string_equal(config_outbox(all, "events")->to, "shipping");
    assert_int_equal(config_outbox(all, "shipping")->options.preset, SEMEL_RELAY_THROUGHPUT);
    assert_string_equal(config_outbox(all, "alarms")->to, "alarms");
    assert_true(config_queue(all, "shipping")->is_written);
    assert_int_equal(all->test_count, 2);
    config_free(all);
}

static void the_longest_pattern_counts(void **state)
{
    (void)state;
    config *all = load_good(GOOD "patterns.yaml");
    const inbox_config *eu = config_inbox(all, "billing.eu.paid");
    const inbox_config *us = config_inbox(all, "billing.us");
    const inbox_config *other = config_inbox(all, "other");
    assert_int_equal(all->inbox_count, 3);
    assert_int_equal(eu->options.wait_ms, 3000);
    assert_int_equal(us->options.wait_ms, 2000);
    assert_int_equal(other->options.wait_ms, 1000);
    assert_int_equal(eu->options.attempts_max, 2);
    assert_int_equal(us->options.attempts_max, 2);
    assert_int_equal(other->options.attempts_max, 1);
    assert_int_equal(other->options.clock_margin_ms, 5400000);
    assert_true(us->options.retention_ms == SEMEL_RETENTION_FOREVER);
    assert_true(us->options.sweep_every_ms == SEMEL_SWEEP_OFF);
    assert_int_equal(us->types.count, 1);
    assert_string_equal(other->sql.items[0], "SELECT '$1' -- a default");
    assert_string_equal(other->sql.items[1], "SELECT\n2");
    assert_int_equal(all->setup.count, 0);
    assert_int_equal(all->log.level, LOG_DEBUG);
    assert_true(all->outboxes[0].options.keep_sent_ms == UINT64_C(14) * 86400000);
    config_free(all);
}

static void set_overrides_the_file(void **state)
{
    static const char *const sets[] = {"inboxes[\"*\"].attempts_max=7",
                                       "inboxes.other.wait=9s",
                                       "store.busy=1s",
                                       "log.keys=false",
                                       "inboxes.new={from: orders, sql: [SELECT 1]}",
                                       "queues.orders.workers=3",
                                       "outboxes.orders.poll=5s"};
    const load_options options = {
        .path = GOOD "patterns.yaml", .sets = sets, .set_count = sizeof sets / sizeof *sets};
    diagnostics found = {0};
    config *all = NULL;
    (void)state;
    (void)config_load(&all, &options, &found);
    diagnostic_print(stderr, &found, "", (diagnostic_form){0});
    assert_non_null(all);
    assert_int_equal(config_inbox(all, "other")->options.attempts_max, 7);
    assert_int_equal(config_inbox(all, "billing.us")->options.attempts_max, 2);
    assert_int_equal(config_inbox(all, "other")->options.wait_ms, 9000);
    assert_int_equal(config_inbox(all, "new")->handler, HANDLER_SQL);
    assert_int_equal(all->store.busy_ms, 1000);
    assert_string_equal(all->store_url, "sqlite:" GOOD "patterns.db");
    assert_int_equal(all->log.level, LOG_DEBUG);
    assert_int_equal(all->log.keys, 0);
    assert_int_equal(all->queues[0].consumer.workers, 3);
    assert_int_equal(all->outboxes[0].options.poll_ms, 5000);
    config_free(all);
    diagnostic_free(&found);
}

/* A diagnostic may be printed when the configuration is gone. */
static void problems_outlive_the_configuration(void **state)
{
    static const char text[] = "version: 1\nstore: x\nqueues: { q: 1 }\nlog: loud\n";
    char *copy = strdup(text), *printed = NULL;
    size_t len = 0;
    (void)state;
    const load_options options = {
        .path = "a.yaml", .text = copy, .len = strlen(copy), .first_line = 11};
    diagnostics found = {0};
    config *all = NULL;
    assert_int_equal(config_load(&all, &options, &found), 0);
    assert_null(all);
    free(copy);
    FILE *out = open_memstream(&printed, &len);
    diagnostic_print(out, &found, "a.yaml", (diagnostic_form){0});
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(printed, "a.yaml:14:6: error: log: \"loud\" is not valid; use error, "
                                    "warning, info or debug\n   14 | log: loud\n"));
    free(printed);
    /* and others may be found after them */
    const load_options broken = {.path = "b.yaml", .text = "a: [", .len = 4, .first_line = 1};
    assert_int_equal(config_load(&all, &broken, &found), 0);
    assert_null(all);
    diagnostic_free(&found);
}

/* Git keeps no modes; a config that others can write is refused, and so is a secret that they can
 * read. */
static int set_modes(void **state)
{
    static const char *const configs[] = {"init.yaml", "minimal.yaml", "full.yaml",
                                          "patterns.yaml"};
    static const char *const secret_files[] = {"pg.password", "mq.password", "invoice.token"};
    char path[512];
    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        (void)snprintf(path, sizeof path, GOOD "%s", configs[i]);
        assert_int_equal(chmod(path, 0644), 0);
    }
    for (size_t i = 0; i < sizeof secret_files / sizeof *secret_files; i++) {
        (void)snprintf(path, sizeof path, GOOD "%s", secret_files[i]);
        assert_int_equal(chmod(path, 0600), 0);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_config_of_init_is_read),
        cmocka_unit_test(the_shortest_config_is_read),
        cmocka_unit_test(the_config_with_every_section_is_read),
        cmocka_unit_test(the_longest_pattern_counts),
        cmocka_unit_test(set_overrides_the_file),
        cmocka_unit_test(problems_outlive_the_configuration),
    };
    return cmocka_run_group_tests(tests, set_modes, NULL);
}
