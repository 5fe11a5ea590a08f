/* The table of options: complete, right by itself, and the same as the library. */
#include "program/config/describe.h"
#include "program/config/options.h"
#include "program/config/read.h"
#include "program/config/reference.h"
#include "program/config/schema.h"
#include "program/config/store_url.h"

#include "core/consumer.h"
#include "core/inbox.h"
#include "core/relay.h"
#include "core/store.h"
#include "transport/store/queue.h"

#include <setjmp.h> /* cmocka.h wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <json-c/json.h>

/* --- every option ----------------------------------------------------------------------------- */

typedef void option_visitor(const section *in, const option *of, void *context);

static void visit(const section *in, option_visitor *each, void *context)
{
    for (size_t i = 0; i < in->count; i++) {
        each(in, &in->options[i], context);
        if (in->options[i].inner)
            visit(in->options[i].inner, each, context);
    }
}

/* The example, read as the value of the option, in YAML. */
static void example_is_valid(const option *of)
{
    unsigned char base[4096] = {0};
    region memory = {0};
    diagnostics found = {0};
    tree_fault fault = {0};
    config_source source = {
        .name = "example", .text = of->example, .len = strlen(of->example), .first_line = 1};
    config_node *node = tree_read(&memory, &source, NULL, NULL, &fault);
    reading r = {&memory, &found, ".", 0};
    assert_non_null(node);
    (void)read_value(&r, of, node, base);
    diagnostic_print(stderr, &found, of->name, (diagnostic_form){0});
    assert_int_equal(found.errors, 0);
    diagnostic_free(&found);
    region_free(&memory);
}

static void default_is_valid(const option *of)
{
    unsigned char base[4096] = {0};
    region memory = {0};
    diagnostics found = {0};
    config_source source = {.name = "default", .text = ""};
    config_node *node = tree_scalar_new(&memory, (place){&source, 1, 1, 1}, of->fallback);
    reading r = {&memory, &found, ".", 0};
    assert_int_equal(read_value(&r, of, node, base), 1);
    assert_int_equal(found.errors, 0);
    region_free(&memory);
}

static void check_option(const section *in, const option *of, void *context)
{
    size_t *count = context;
    (*count)++;
    assert_non_null(of->name);
    assert_ptr_equal(option_find(in, of->name), of); /* no name twice */
    assert_non_null(of->text);
    assert_null(strchr(of->text, '\n'));
    assert_true(of->text[strlen(of->text) - 1] != '.');
    assert_true(of->type != OPTION_WORD || of->words);
    assert_true(of->least <= of->most || !of->most);
    assert_true((of->type < OPTION_SECTION) == !of->inner);
    if (of->example)
        example_is_valid(of);
    if (of->fallback)
        default_is_valid(of);
}

static void each_option_is_described_and_its_values_are_right(void **state)
{
    size_t count = 0;
    (void)state;
    visit(&section_config, check_option, &count);
    assert_true(count > 100);
}

/* --- what is made of it ----------------------------------------------------------------------- */

static void is_named(const section *in, const option *of, void *context)
{
    char quoted[64];
    (void)in;
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", of->name);
    if (in->count > 1) /* a section with one option is always written as its value */
        assert_non_null(strstr(context, quoted));
}

static void the_schema_is_json_and_names_every_option(void **state)
{
    buffer text = {0};
    (void)state;
    schema_write(&text);
    json_object *root = json_tokener_parse(text.data);
    assert_non_null(root);
    json_object *member = NULL;
    assert_true(json_object_object_get_ex(root, "$schema", &member));
    assert_string_equal(json_object_get_string(member),
                        "https://json-schema.org/draft/2020-12/schema");
    visit(&section_config, is_named, text.data);
    json_object_put(root);
    buffer_free(&text);
}

static void is_mentioned(const section *in, const option *of, void *context)
{
    (void)in;
    assert_non_null(strstr(context, of->name));
    assert_non_null(strstr(context, of->text));
}

static void help_and_reference_mention_every_option(void **state)
{
    buffer help = {0}, page = {0};
    (void)state;
    reference_help(&help);
    reference_markdown(&page);
    visit(&section_config, is_mentioned, help.data);
    buffer_free(&help);
    buffer_free(&page);
}

/* --- the library ------------------------------------------------------------------------------ */

static size_t width_of(option_type type)
{
    switch (type) {
    case OPTION_DURATION:
    case OPTION_NUMBER:
    case OPTION_BOOLEAN:
    case OPTION_WORD:
        return 4;
    case OPTION_LONG_DURATION:
        return 8;
    default:
        return 0; /* texts are compared by name */
    }
}

/* Members of a library's struct that the table has defaults for: `ours` was filled by the table
 * and begins at `start` of the section's struct, `theirs` by the library. Returns their number. */
static size_t same_defaults(const section *of, const char *prefix, const void *ours,
                            const void *theirs, size_t start)
{
    size_t compared = 0;
    for (size_t i = 0; i < of->count; i++) {
        const option *next = &of->options[i];
        if (!next->c_name || !next->fallback || strncmp(next->c_name, prefix, strlen(prefix)) != 0)
            continue;
        size_t offset = next->offset - start, width = width_of(next->type);
        if (memcmp((const char *)ours + offset, (const char *)theirs + offset, width) != 0)
            fail_msg("the default of %s is not that of %s", next->name, next->c_name);
        compared += width > 0;
    }
    return compared;
}

typedef struct opened {
    char directory[32];
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
    semel_transport *queue;
} opened;

static opened open_all(void)
{
    opened o = {.directory = "/tmp/semel-options-XXXXXX"};
    char url[64];
    semel_error err = {0};
    assert_non_null(mkdtemp(o.directory));
    (void)snprintf(url, sizeof url, "sqlite:%s/db", o.directory);
    assert_int_equal(semel_store_open(&o.store, url, NULL, &err), SEMEL_OK);
    assert_int_equal(semel_store_migrate(o.store, &err), SEMEL_OK);
    assert_int_equal(semel_inbox_open(&o.inbox, o.store, "a", NULL, &err), SEMEL_OK);
    assert_int_equal(semel_outbox_open(&o.outbox, o.store, "a", &err), SEMEL_OK);
    assert_int_equal(semel_queue_open(&o.queue, o.store, "a", NULL, &err), SEMEL_OK);
    return o;
}

static void close_all(opened *o)
{
    semel_transport_close(o->queue);
    semel_outbox_close(o->outbox);
    semel_inbox_close(o->inbox);
    semel_store_close(o->store);
    char path[64];
    (void)snprintf(path, sizeof path, "%s/db", o->directory);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(o->directory), 0);
}

static semel_status no_handler(semel_unit *unit, const semel_message *message, void *context,
                               semel_error *err)
{
    (void)unit, (void)message, (void)context, (void)err;
    return SEMEL_OK;
}

static void defaults_are_those_of_the_library(void **state)
{
    (void)state;
    opened o = open_all();
    const reading quiet = {0};
    config all = {0};
    queue_config queue = {0};
    inbox_config inbox = {0};
    read_defaults(&quiet, &section_config, &all);
    read_defaults(&quiet, &section_queue, &queue);
    read_defaults(&quiet, &section_inbox, &inbox);

    assert_int_equal(all.store.busy_ms, o.store->settings.busy_ms);
    assert_int_equal(all.store.answer_ms, o.store->settings.answer_ms);
    assert_true(same_defaults(&section_inbox, "semel_inbox_options.", &inbox.options,
                              &o.inbox->options, offsetof(inbox_config, options)) >= 14);
    assert_string_equal(inbox.options.fault_topic, "semel.fault");

    semel_route route = {"*", o.inbox, no_handler, NULL};
    semel_consumer *consumer = NULL;
    semel_error err = {0};
    assert_int_equal(semel_consumer_open(&consumer, o.queue, &route, 1, NULL, &err), SEMEL_OK);
    assert_true(same_defaults(&section_queue, "semel_consumer_options.", &queue.consumer,
                              &consumer->options, offsetof(queue_config, consumer)) >= 6);
    semel_consumer_close(consumer);
    const store_queue *kept = o.queue->state;
    assert_int_equal(queue.queue.lease_ms, kept->lease_ms);
    assert_int_equal(queue.queue.poll_ms, kept->poll_ms);
    close_all(&o);
}

/* "by preset: 100, 1000, 10" is what the presets say. */
static void presets_are_those_of_the_library(void **state)
{
    (void)state;
    opened o = open_all();
    semel_error err = {0};
    for (size_t i = 0; i < section_outbox.count; i++) {
        const option *of = &section_outbox.options[i];
        const char *text = of->otherwise ? strchr(of->otherwise, ':') : NULL;
        for (int preset = SEMEL_RELAY_BALANCED; text && preset <= SEMEL_RELAY_CAREFUL; preset++) {
            semel_relay_options options = {.size = sizeof options,
                                           .preset = (semel_relay_preset)preset};
            semel_relay *relay = NULL;
            char word[32] = "";
            outbox_config ours = {0};
            option alone = *of;
            text += 1 + strspn(text + 1, " ");
            (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(text, ","), text);
            text = strchr(text, ',');
            alone.fallback = word;
            const section one = {.options = &alone, .count = 1};
            const reading quiet = {0};
            read_defaults(&quiet, &one, &ours);
            assert_int_equal(semel_relay_open(&relay, o.outbox, o.queue, &options, &err), SEMEL_OK);
            size_t offset = of->offset - offsetof(outbox_config, options);
            assert_memory_equal((char *)&ours.options + offset, (char *)&relay->options + offset,
                                4);
            semel_relay_close(relay);
        }
    }
    close_all(&o);
}

/* --- the store's URL -------------------------------------------------------------------------- */

static void a_server_gets_connections_unless_its_url_says_how_many(void **state)
{
    static const char *const urls[][2] = {
        {"postgres://u@h/d", "postgres://u@h/d?pool=16"},
        {"postgresql://u@h/d?schema=s", "postgresql://u@h/d?schema=s&pool=16"},
        {"mariadb://u@h/d?prefix=pool_", "mariadb://u@h/d?prefix=pool_&pool=16"},
        {"mysql://u@h/d?pool=3", "mysql://u@h/d?pool=3"},
        {"postgres://u@h/d?schema=s&pool=64", "postgres://u@h/d?schema=s&pool=64"},
        {"postgres://u@h/d?spool=1", "postgres://u@h/d?spool=1&pool=16"},
        {"sqlite:shop.db", "sqlite:shop.db"},
        {"memory:", "memory:"},
    };
    region memory = {0};
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        assert_string_equal(store_url_pooled(&memory, urls[i][0], 16), urls[i][1]);
    region_free(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_option_is_described_and_its_values_are_right),
        cmocka_unit_test(the_schema_is_json_and_names_every_option),
        cmocka_unit_test(help_and_reference_mention_every_option),
        cmocka_unit_test(defaults_are_those_of_the_library),
        cmocka_unit_test(presets_are_those_of_the_library),
        cmocka_unit_test(a_server_gets_connections_unless_its_url_says_how_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
