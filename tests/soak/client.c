/* The foreign client of a broker that has one in C (soak_client in brokers.h), around it what does
 * not depend on the broker.
 *
 * Publishing: publish.py decides what is sent. It starts this program, writes a line "TAG GROUP
 * NUMBER TYPE" for each message, and reads a line "TAG CONFIRMED" for each answer. The program ends
 * when the connection to the broker is lost; publish.py then sends anew what has no answer, by
 * another one. It also ends with its input, so it does not outlive the script.
 *
 * Consuming: a line "BODY ID" for each message, in the order of their arrival. Messages are
 * acknowledged when their lines have been written; so those that it was killed over come again. It
 * ends by being killed. */
#include "brokers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 100, LINE = 160, LOST = 3, WAIT_MS = 50, BACK_OFF_NAPS = 300 };

/* --- publishing ------------------------------------------------------------------------------- */

typedef struct parsed {
    unsigned long long tag;
    char queue[SOAK_TEXT], group[SOAK_TEXT], type[SOAK_TEXT], id[LINE], body[LINE];
} parsed;

static void parse_line(parsed *out, soak_item *item, const char *line)
{
    unsigned long long number;
    if (sscanf(line, "%llu %63s %llu %63s", &out->tag, out->group, &number, out->type) != 4)
        soak_die("publish.py wrote \"%s\"", line);
    soak_print(out->queue, sizeof out->queue, "%.*s", (int)strcspn(out->group, "."), out->group);
    soak_print(out->id, sizeof out->id, "%s-%llu", out->group, number);
    soak_print(out->body, sizeof out->body, "%s %llu", out->group, number);
    *item = (soak_item){.queue = out->queue,
                        .group = out->group,
                        .id = out->id,
                        .type = out->type,
                        .body = out->body};
}

/* What has come by now; reads once, and once more only for the rest of a line. 0: the end. */
static size_t read_batch(parsed lines[BATCH], soak_item items[BATCH])
{
    static char buffer[BATCH * LINE];
    static size_t filled;
    size_t count = 0, used = 0;
    while (!memchr(buffer, '\n', filled)) {
        ssize_t got = read(STDIN_FILENO, buffer + filled, sizeof buffer - filled);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        filled += (size_t)got;
    }
    for (char *end; count < BATCH; count++) {
        end = memchr(buffer + used, '\n', filled - used);
        if (!end)
            break;
        *end = 0;
        parse_line(&lines[count], &items[count], buffer + used);
        used = (size_t)(end - buffer) + 1;
    }
    filled -= used;
    memmove(buffer, buffer + used, filled);
    return count;
}

static void answer(const parsed lines[], size_t count, const int confirmed[])
{
    for (size_t i = 0; i < count; i++)
        printf("%llu %d\n", lines[i].tag, confirmed[i] != 0);
    (void)fflush(stdout);
}

int soak_client_publish(const soak_broker *broker, const char *url, const char *store)
{
    static parsed lines[BATCH];
    soak_item items[BATCH];
    void *client = broker->client->open(url, store, 0);
    int is_connected = client != NULL;
    for (size_t count; is_connected && (count = read_batch(lines, items)) > 0;) {
        int confirmed[BATCH] = {0};
        is_connected = broker->client->publish(client, items, count, confirmed);
        if (is_connected)
            answer(lines, count, confirmed);
    }
    if (client)
        broker->client->close(client);
    return is_connected ? 0 : LOST;
}

/* --- consuming -------------------------------------------------------------------------------- */

/* 0: the connection is lost. */
static int write_down(const soak_client *on, void *client, FILE *file, soak_counters *counters)
{
    soak_item items[BATCH];
    int count = on->receive(client, items, BATCH, WAIT_MS);
    for (int i = 0; i < count; i++)
        (void)fprintf(file, "%s %s\n", items[i].body, items[i].id);
    if (count <= 0)
        return count == 0;
    (void)fflush(file);
    atomic_fetch_add(&counters->received, (uint64_t)count);
    return on->acknowledge(client);
}

int soak_client_consume(void *context)
{
    const soak_run *run = context;
    const soak_client *on = run->options->broker->client;
    char path[SCRATCH_PATH];
    soak_leave();
    FILE *file = fopen(scratch_file(path, &run->directory, "foreign"), "ae");
    if (!file)
        soak_die("cannot write to %s", path);
    for (;;) {
        void *client = on->open(run->servers->broker.at.url, soak_store_name(run->store), 1);
        if (client)
            atomic_store(&run->counters->ready, 1);
        while (client && write_down(on, client, file, run->counters))
            continue;
        if (client)
            on->close(client);
        for (int i = 0; i < BACK_OFF_NAPS; i++)
            process_nap();
    }
}
