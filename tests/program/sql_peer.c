/* sql_peer URL INBOX THREADS transaction|queued: the C side of check_sql.py. Each line of the
 * standard input is an id. A thread receives a message with this id, whose handler inserts a row
 * into `charge` and sends a message, and prints the id when the message is settled. What SQL
 * functions do meanwhile under the same ids must not be done again. */
#include <pthread.h>
#include <semel/semel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS_MAX = 64, LINE_SIZE = 128 };

typedef struct peer {
    semel_inbox *inbox;
    semel_outbox *outbox;
} peer;

static semel_status charge(semel_unit *unit, const semel_message *order, void *outbox,
                           semel_error *err)
{
    char id[LINE_SIZE] = "";
    semel_message receipt = {.size = sizeof receipt, .type = "charged", .body = order->id};
    memcpy(id, order->id.data, order->id.len);
    semel_value row[] = {semel_text(id), semel_int(990)};
    semel_status status =
        semel_unit_queue(unit, "INSERT INTO charge (order_id, cents) VALUES (?, ?)", row, 2, err);
    return status ? status : semel_unit_send(unit, outbox, &receipt, err);
}

static int is_passing(semel_status status)
{
    return status == SEMEL_EBUSY || status == SEMEL_ECONFLICT;
}

static void receive(const peer *p, const char *id)
{
    static const struct timespec pause = {0, 5000000};
    semel_message order = {.size = sizeof order, .id = semel_str(id), .type = "order"};
    semel_error err;
    semel_outcome outcome;
    semel_status status;
    while (is_passing(status =
                          semel_inbox_receive(&outcome, p->inbox, &order, charge, p->outbox, &err)))
        nanosleep(&pause, NULL);
    if (status) {
        fprintf(stderr, "sql_peer: %s: %s\n", id, err.text);
        exit(1);
    }
}

static void *work(void *context)
{
    char id[LINE_SIZE];
    while (fgets(id, sizeof id, stdin)) {
        id[strcspn(id, "\n")] = 0;
        receive(context, id);
        printf("%s\n", id);
    }
    return NULL;
}

static int run(peer *p, int count)
{
    pthread_t threads[THREADS_MAX];
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, work, p))
            return 1;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

int main(int argc, char **argv)
{
    peer p;
    semel_store *store;
    semel_error err;
    int queued = argc == 5 && strcmp(argv[4], "queued") == 0;
    int threads = argc == 5 ? atoi(argv[3]) : 0;
    semel_inbox_options options = {.size = sizeof options,
                                   .mode = queued ? SEMEL_QUEUED : SEMEL_TRANSACTION};
    if (threads < 1 || threads > THREADS_MAX)
        return fprintf(stderr, "usage: sql_peer URL INBOX THREADS transaction|queued\n"), 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (semel_store_open(&store, argv[1], NULL, &err) || semel_store_migrate(store, &err) ||
        semel_outbox_open(&p.outbox, store, "receipts", &err) ||
        semel_inbox_open(&p.inbox, store, argv[2], &options, &err))
        return fprintf(stderr, "sql_peer: %s\n", err.text), 1;
    int failed = run(&p, threads);
    semel_inbox_close(p.inbox);
    semel_outbox_close(p.outbox);
    semel_store_close(store);
    return failed;
}
