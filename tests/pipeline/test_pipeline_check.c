/* Specifications that contradict themselves: semel_pipeline_check() names the element and says what
 * is wrong, and semel_pipeline_open() opens nothing then. */
#include "support/base/check.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    (void)unit, (void)message, (void)context, (void)err;
    return SEMEL_OK;
}

/* What is right; each case changes something in a copy. */
enum { MOST = 6 };
typedef struct draft {
    semel_pipeline_spec spec;
    semel_pipeline_store stores[MOST];
    semel_pipeline_queue queues[MOST];
    semel_pipeline_inbox inboxes[MOST];
    semel_pipeline_outbox outboxes[MOST];
} draft;

static void draft_begin(draft *d)
{
    *d = (draft){
        .spec = {.size = sizeof d->spec,
                 .stores = d->stores,
                 .queues = d->queues,
                 .inboxes = d->inboxes,
                 .outboxes = d->outboxes},
        .stores = {{.name = "shop", .url = "sqlite:none.db"}, {.name = "other", .url = "memory:"}},
        .queues = {{.name = "orders"}, {.name = "mails", .url = "memory:"}},
        .inboxes = {{.name = "stock", .from = "orders", .handler = handle},
                    {.name = "local", .handler = handle},
                    {.name = "free"}},
        .outboxes = {{.name = "placed", .to = "orders"},
                     {.name = "handed", .inbox = "local"},
                     {.name = "sent", .to = "mails", .store = "other"}},
    };
}

static const semel_store_options store_options = {.size = sizeof store_options};
static const semel_store_options store_sizeless;
static const semel_queue_options queue_options = {.size = sizeof queue_options};
static const semel_queue_options queue_sizeless;
static const semel_consumer_options consumer_options = {.size = sizeof consumer_options};
static const semel_consumer_options consumer_sizeless;
static const semel_consumer_options consumer_sharing = {.size = sizeof consumer_sharing,
                                                        .shared_inboxes = 1};
static const semel_inbox_options inbox_sizeless;
static const semel_inbox_options inbox_claim = {.size = sizeof inbox_claim, .mode = SEMEL_CLAIM};
static const semel_relay_options relay_options = {.size = sizeof relay_options};
static const semel_relay_options relay_sizeless;
static const char *const no_types[] = {NULL}, *const empty_type[] = {"a", "", NULL};

/* A case: what it does to the draft, and what is said of it. */
#define CASE(number, change, text) \
    case number:                   \
        change;                    \
        *says = text;              \
        break

static int spoil_store(draft *d, int number, const char **says)
{
    static int thing;
    semel_store *store = (semel_store *)&thing; /* never looked into */
    switch (number) {
        CASE(0, d->spec.size = 0, "semel_pipeline_spec.size is not set");
        CASE(1, d->spec.stores = NULL, "it needs at least one store in .stores");
        CASE(2, d->stores[0].url = NULL, "store \"shop\": it needs either a url");
        CASE(3, d->stores[0].opened = store, "store \"shop\": it needs either a url");
        CASE(4,
             (d->stores[0] =
                  (semel_pipeline_store){"shop", .opened = store, .options = &store_options}),
             "store \"shop\": options: they are for opening it");
        CASE(5,
             (d->stores[0] = (semel_pipeline_store){"shop", .opened = store},
              d->stores[1] = (semel_pipeline_store){"other", .opened = store}),
             "store \"other\": opened: it is store \"shop\" already");
        CASE(6, d->stores[0].options = &store_sizeless,
             "store \"shop\": semel_store_options.size is not set");
        CASE(7, d->stores[1].name = "shop", "store \"shop\": there are two of this name");
        CASE(8, d->stores[1].name = "a b", "store name \"a b\": character 2");
    default:
        return 0;
    }
    return 1;
}

static int spoil_queue(draft *d, int number, const char **says)
{
    static int thing;
    semel_transport *opened = (semel_transport *)&thing; /* never looked into */
    switch (number) {
        CASE(10, d->queues[1].opened = opened, "queue \"mails\": it has a url, and is open");
        CASE(11, d->queues[1].store = "shop",
             "queue \"mails\": store: it is for a queue in a store");
        CASE(12, d->queues[1].options = &queue_options, "queue \"mails\": options: they are for a");
        CASE(13, d->queues[0].options = &queue_sizeless,
             "queue \"orders\": semel_queue_options.size is not set");
        CASE(14, d->queues[0].store = "shp",
             "queue \"orders\": store: there is no store \"shp\"; did you mean \"shop\"?");
        CASE(15, d->queues[1].consumer = &consumer_options,
             "queue \"mails\": consumer: no inbox reads from this queue");
        CASE(16, d->queues[0].consumer = &consumer_sharing,
             "queue \"orders\": consumer: leave .shared_inboxes to the pipeline");
        CASE(17, d->queues[0].consumer = &consumer_sizeless,
             "queue \"orders\": semel_consumer_options.size is not set");
        CASE(18, d->queues[2].name = "idle",
             "queue \"idle\": no inbox reads from it and no outbox sends to it");
        CASE(19,
             (d->queues[0] = (semel_pipeline_queue){"orders", .opened = opened},
              d->queues[1] = (semel_pipeline_queue){"mails", .opened = opened}),
             "queue \"mails\": opened: it is queue \"orders\" already");
    default:
        return 0;
    }
    return 1;
}

static int spoil_inbox(draft *d, int number, const char **says)
{
    static int thing;
    static semel_inbox_options faulty = {.size = sizeof faulty};
    faulty.faults = (semel_outbox *)&thing; /* never looked into */
    switch (number) {
        CASE(20, d->inboxes[0].from = "order",
             "inbox \"stock\": from: there is no queue \"order\"; did you mean \"orders\"?");
        CASE(21, d->inboxes[0].from = "invoices",
             "inbox \"stock\": from: there is no queue \"invoices\"; declare it in the pipeline's "
             ".queues");
        CASE(23, d->inboxes[0].handler = NULL, "inbox \"stock\": it needs a handler");
        CASE(24, d->inboxes[1].handler = NULL, "inbox \"local\": it needs a handler");
        CASE(25, d->inboxes[2].handler = handle, "inbox \"free\": nothing calls its handler");
        CASE(26, d->inboxes[1].types = empty_type, "inbox \"local\": types: they choose from what");
        CASE(27, d->inboxes[0].types = empty_type, "inbox \"stock\": types: number 2 is empty");
        CASE(28, d->inboxes[0].types = no_types, "inbox \"stock\": types: there is none in it");
        CASE(29, d->inboxes[0].options = &inbox_sizeless,
             "inbox \"stock\": semel_inbox_options.size is not set");
        CASE(30, d->inboxes[0].options = &faulty,
             "inbox \"stock\": options.faults: name the outbox");
        CASE(31, d->inboxes[0].faults = "plced",
             "inbox \"stock\": faults: there is no outbox \"plced\"; did you mean \"placed\"?");
        CASE(32, d->inboxes[0].faults = "sent",
             "inbox \"stock\": faults: outbox \"sent\" is in another store");
        CASE(33, d->inboxes[0].require = (semel_grade)9, "inbox \"stock\": require: there is no");
        CASE(34, d->inboxes[2].unkeyed = 1, "inbox \"free\": unkeyed: it is for what a queue");
        CASE(35, (d->inboxes[0].unkeyed = 1, d->inboxes[0].options = &inbox_claim),
             "inbox \"stock\": unkeyed: there is no inbox in the store that .options could");
        CASE(36, (d->inboxes[0].unkeyed = 1, d->inboxes[0].faults = "placed"),
             "inbox \"stock\": unkeyed: there is no inbox in the store that .faults could");
        CASE(37, (d->inboxes[0].unkeyed = 1, d->inboxes[0].require = SEMEL_GRADE_EFFECTIVELY_ONCE),
             "inbox \"stock\": unkeyed: every copy runs the handler");
        CASE(39,
             (d->inboxes[0].unkeyed = 1, d->inboxes[3] = d->inboxes[0], d->inboxes[3].name = "more",
              d->inboxes[3].store = "other"),
             "inbox \"more\": unkeyed: inbox \"stock\" of the same queue is unkeyed in another");
        CASE(40, d->inboxes[2].name = "stock", "inbox \"stock\": there are two of this name");
        CASE(41, d->inboxes[2].store = "shops",
             "inbox \"free\": store: there is no store \"shops\"; did you mean \"shop\"?");
        CASE(
            22, d->inboxes[1].from = "orders",
            "inbox \"local\": it reads from queue \"orders\", and outbox \"handed\" is handed off");
        CASE(
            38,
            (d->inboxes[0].unkeyed = 1, d->inboxes[3] = d->inboxes[0], d->inboxes[3].name = "more"),
            "inbox \"more\": unkeyed: inbox \"stock\" of the same queue has the same handler");
    default:
        return 0;
    }
    return 1;
}

static int spoil_outbox(draft *d, int number, const char **says)
{
    switch (number) {
        CASE(50, (d->outboxes[0].inbox = "free", d->inboxes[2].handler = handle),
             "outbox \"placed\": it has two destinations");
        CASE(51, d->outboxes[0].to = "ordrs",
             "outbox \"placed\": to: there is no queue \"ordrs\"; did you mean \"orders\"?");
        CASE(52, d->outboxes[1].inbox = "locale",
             "outbox \"handed\": inbox: there is no inbox \"locale\"; did you mean \"local\"?");
        CASE(53, d->inboxes[1].store = "other",
             "outbox \"handed\": inbox: \"local\" is in another store");
        CASE(54, d->inboxes[1].options = &inbox_claim,
             "outbox \"handed\": inbox: \"local\" is in claim mode");
        CASE(55, (d->outboxes[2].to = NULL, d->outboxes[2].options = &relay_options),
             "outbox \"sent\": options: it has no relay");
        CASE(56, (d->outboxes[2].to = NULL, d->outboxes[2].relays = 2),
             "outbox \"sent\": relays: it has no relay");
        CASE(57, d->outboxes[0].relays = 257, "outbox \"placed\": relays is 257");
        CASE(58, d->outboxes[0].options = &relay_sizeless,
             "outbox \"placed\": semel_relay_options.size is not set");
        CASE(59, d->outboxes[2].name = "placed", "outbox \"placed\": there are two of this name");
    default:
        return 0;
    }
    return 1;
}

static int spoil(draft *d, int number, const char **says)
{
    return spoil_store(d, number, says) || spoil_queue(d, number, says) ||
           spoil_inbox(d, number, says) || spoil_outbox(d, number, says);
}

static void contradictions_are_named(void **state)
{
    (void)state;
    int cases = 0;
    for (int i = 0; i < 64; i++) {
        draft d;
        const char *says = NULL;
        semel_pipeline *none = NULL;
        draft_begin(&d);
        if (!spoil(&d, i, &says))
            continue;
        cases++;
        semel_status status = i == 57 ? SEMEL_ELIMIT : SEMEL_EINVAL;
        FAILS(status, semel_pipeline_check(&d.spec, &last_error));
        SAYS(says);
        FAILS(status, semel_pipeline_open(&none, &d.spec, &last_error));
        SAYS(says);
        assert_null(none);
    }
    assert_int_equal(cases, 51);
    assert_int_not_equal(access("none.db", F_OK), 0);
}

static void what_is_right_is_accepted_without_opening_anything(void **state)
{
    (void)state;
    draft d;
    draft_begin(&d);
    OK(semel_pipeline_check(&d.spec, &last_error));
    assert_int_not_equal(access("none.db", F_OK), 0);
    FAILS(SEMEL_EINVAL, semel_pipeline_check(NULL, &last_error));
    assert_int_equal(semel_pipeline_check(NULL, NULL), SEMEL_EINVAL);
}

/* Neither an array without its end nor one that is too long is read for ever. */
static void there_is_a_limit_of_each_kind(void **state)
{
    (void)state;
    static semel_pipeline_outbox many[SEMEL_PIPELINE_MAX + 2];
    static char names[SEMEL_PIPELINE_MAX + 2][16];
    const semel_pipeline_store stores[] = {{.name = "shop", .url = "memory:"}, {0}};
    semel_pipeline_spec spec = {.size = sizeof spec, .stores = stores, .outboxes = many};
    for (size_t i = 0; i < SEMEL_PIPELINE_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "o%zu", i);
        many[i].name = names[i];
    }
    OK(semel_pipeline_check(&spec, &last_error));
    many[SEMEL_PIPELINE_MAX].name = "one-more";
    FAILS(SEMEL_ELIMIT, semel_pipeline_check(&spec, &last_error));
    SAYS("more than 256 outboxes (SEMEL_PIPELINE_MAX)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contradictions_are_named),
        cmocka_unit_test(what_is_right_is_accepted_without_opening_anything),
        cmocka_unit_test(there_is_a_limit_of_each_kind),
    };
    return cmocka_run_group_tests_name("pipeline: the specification", tests, NULL, NULL);
}
