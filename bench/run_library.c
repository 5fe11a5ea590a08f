/* The library alone: a consumer with the options and the statement that the program has, in a
 * process of its own, which SIGTERM ends. */
#include "run.h"

#include <semel/queue.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static semel_consumer *consumer; /* for the signal */

static semel_status queue_row(semel_unit *unit, const semel_message *message, void *context,
                              semel_error *err)
{
    semel_value body = semel_blob(message->body);
    return semel_unit_queue(unit, context, &body, 1, err);
}

static semel_status do_nothing(semel_unit *unit, const semel_message *message, void *context,
                               semel_error *err)
{
    (void)unit, (void)message, (void)context, (void)err;
    return SEMEL_OK;
}

static void on_signal(int number)
{
    (void)number;
    semel_consumer_stop(consumer);
}

static void consume(semel_store *store, semel_inbox *inbox, semel_mode mode, char *effect_sql,
                    const semel_consumer_options *how)
{
    static const char ready[] = "{\"event\":\"ready\"}\n";
    const struct sigaction action = {.sa_handler = on_signal};
    semel_transport *queue;
    semel_error err;
    const semel_route route = {.pattern = "*",
                               .inbox = inbox,
                               .handler = mode == SEMEL_CLAIM ? do_nothing : queue_row,
                               .context = effect_sql};
    must(semel_queue_open(&queue, store, "bench", NULL, &err), &err);
    must(semel_consumer_open(&consumer, queue, &route, 1, how, &err), &err);
    sigaction(SIGTERM, &action, NULL);
    if (write(STDERR_FILENO, ready, sizeof ready - 1) < 0)
        die("nothing reads what it says");
    must(semel_consumer_run(consumer, &err), &err);
    semel_consumer_close(consumer);
    semel_transport_close(queue);
}

int library_main(char **arguments)
{
    semel_error err;
    semel_store *store;
    semel_inbox *inbox;
    char effect_sql[SQL_TEXT];
    const semel_inbox_options options_of_inbox = {.size = sizeof options_of_inbox,
                                                  .mode = (semel_mode)atoi(arguments[0])};
    const semel_consumer_options how = {.size = sizeof how,
                                        .batch = (uint32_t)atoi(arguments[1]),
                                        .workers = (uint32_t)atoi(arguments[2])};
    snprintf(effect_sql, sizeof effect_sql, "INSERT INTO %s (body) VALUES (?)", arguments[4]);
    must(semel_store_open(&store, arguments[3], NULL, &err), &err);
    must(semel_inbox_open(&inbox, store, "bench", &options_of_inbox, &err), &err);
    consume(store, inbox, options_of_inbox.mode, effect_sql, &how);
    semel_inbox_close(inbox);
    semel_store_close(store);
    return 0;
}

run_figure library_turn(void *context, const message_set *set)
{
    library_side *side = context;
    char mode[16], batch[16], workers[16];
    const char *const arguments[] = {"semel-bench",   LIBRARY_ARGUMENT,   mode, batch, workers,
                                     side->stage.url, side->stage.effect, NULL};
    snprintf(mode, sizeof mode, "%d", (int)side->mode);
    snprintf(batch, sizeof batch, "%u", side->batch);
    snprintf(workers, sizeof workers, "%u", side->workers);
    side->process.arguments = arguments;
    stage_fill(&side->stage, set);
    program_start(&side->process);
    run_figure figure = stage_measure(&side->stage, set->count, &side->process);
    program_stop(&side->process);
    return figure;
}
