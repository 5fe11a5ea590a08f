/* One line per message, written in one call with O_APPEND, so several processes may publish at
 * once. fsync before the answer, as a broker would. A write that crosses a page can be cut short by
 * SIGKILL, so a line begins with a newline of its own and ends with a mark; one without was never
 * confirmed and does not count. */
#include "support/fake/broker_file.h"

#include <errno.h>
#include <fcntl.h>
#include <semel/sys/transport.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct broker {
    const broker_file *file;
    int fd;
} broker;

/* --- publishing ------------------------------------------------------------------------------- */

static semel_status broker_open(void *transport, const char *argument,
                                const semel_transport_settings *settings, semel_error *err)
{
    broker *self = transport;
    (void)settings;
    self->file = (const void *)argument;
    self->fd = open(self->file->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (self->fd < 0)
        return semel_fail(err, SEMEL_EUNAVAILABLE, "broker file: %s", strerror(errno));
    return SEMEL_OK;
}

static void broker_close(void *transport)
{
    close(((broker *)transport)->fd);
}

static semel_durability broker_durability(const void *transport)
{
    (void)transport;
    return SEMEL_DURABLE_POWER;
}

static const char *or_dash(const char *text)
{
    return text && *text ? text : "-";
}

static int append(const broker *self, const semel_message *m)
{
    char line[512];
    int len = snprintf(line, sizeof line, "\n%.*s\t%s\t%s\t%.*s\t.\n", (int)m->id.len,
                       m->id.len ? (const char *)m->id.data : "-", or_dash(m->group),
                       or_dash(m->topic), m->body.len ? (int)m->body.len : 1,
                       m->body.len ? (const char *)m->body.data : "-");
    return len > 0 && len < (int)sizeof line && write(self->fd, line, (size_t)len) == len;
}

static int is_refused(const broker *self, const semel_message *message)
{
    return self->file->refused_topic && message->topic &&
           strcmp(self->file->refused_topic, message->topic) == 0;
}

static semel_status broker_publish(void *transport, semel_publish_result results[],
                                   const semel_message *const messages[], size_t count,
                                   uint32_t wait_ms, semel_error *err)
{
    const broker *self = transport;
    const broker_file *file = self->file;
    (void)wait_ms;
    if (file->before)
        file->before(file->context);
    for (size_t i = 0; i < count; i++) {
        if (is_refused(self, messages[i]))
            results[i] = SEMEL_PUBLISH_REFUSED;
        else if (append(self, messages[i]))
            results[i] = SEMEL_PUBLISH_CONFIRMED;
        else
            return semel_fail(err, SEMEL_EUNAVAILABLE, "broker file: %s", strerror(errno));
    }
    if (fsync(self->fd))
        return semel_fail(err, SEMEL_EUNAVAILABLE, "broker file: %s", strerror(errno));
    if (file->after)
        file->after(file->context);
    return SEMEL_OK;
}

static semel_status broker_receive(void *transport, semel_delivery deliveries[], size_t max,
                                   size_t *count, uint32_t wait_ms, semel_error *err)
{
    (void)transport;
    (void)deliveries;
    (void)max;
    (void)wait_ms;
    (void)err;
    *count = 0;
    return SEMEL_OK;
}

static semel_status broker_settle(void *transport, const semel_delivery_settlement settles[],
                                  size_t count, semel_error *err)
{
    (void)transport;
    (void)settles;
    return count ? semel_fail(err, SEMEL_EINVAL, "a broker file delivers nothing") : SEMEL_OK;
}

static const semel_transport_driver broker_driver = {
    .version = SEMEL_TRANSPORT_DRIVER_VERSION,
    .scheme = "broker-file",
    .transport_size = sizeof(broker),
    .open = broker_open,
    .close = broker_close,
    .durability = broker_durability,
    .publish = broker_publish,
    .receive = broker_receive,
    .settle = broker_settle,
};

semel_status broker_file_open(semel_transport **out, const broker_file *file, semel_error *err)
{
    return semel_transport_open_driver(out, &broker_driver, file, NULL, err);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void add_entry(broker_log *log, const char *line)
{
    broker_entry *entries = realloc(log->entries, (log->count + 1) * sizeof *entries);
    if (!entries)
        abort();
    log->entries = entries;
    broker_entry *e = &entries[log->count++];
    if (sscanf(line, "%63[^\t]\t%63[^\t]\t%63[^\t]\t%63[^\n]", e->id, e->group, e->topic,
               e->body) != 4) {
        (void)fprintf(stderr, "broker file: cannot read \"%s\"\n", line);
        abort();
    }
}

/* 1 if the line is whole; its end mark is removed. */
static int cut_mark(char *line)
{
    size_t len = strlen(line);
    if (len < 4 || strcmp(line + len - 3, "\t.\n") != 0)
        return 0;
    line[len - 3] = 0;
    return 1;
}

void broker_log_read(broker_log *out, const char *path)
{
    char line[512];
    FILE *file = fopen(path, "r");
    *out = (broker_log){0};
    if (!file)
        return;
    while (fgets(line, sizeof line, file))
        if (cut_mark(line))
            add_entry(out, line);
    (void)fclose(file);
}

void broker_log_free(broker_log *log)
{
    free(log->entries);
    *log = (broker_log){0};
}

/* --- copies ----------------------------------------------------------------------------------- */

static int compare_ids(const void *one, const void *other)
{
    const broker_entry *a = *(const broker_entry *const *)one;
    const broker_entry *b = *(const broker_entry *const *)other;
    int order = strcmp(a->id, b->id);
    return order ? order : (a > b) - (a < b); /* the first of them first */
}

static int compare_bodies(const void *one, const void *other)
{
    const broker_entry *a = *(const broker_entry *const *)one;
    const broker_entry *b = *(const broker_entry *const *)other;
    return strcmp(a->body, b->body);
}

/* Pointers to all entries, in this order; to be freed. */
static broker_entry **sorted(const broker_log *log, int (*compare)(const void *, const void *))
{
    broker_entry **all = calloc(log->count + 1, sizeof *all);
    if (!all)
        abort();
    for (size_t i = 0; i < log->count; i++)
        all[i] = &log->entries[i];
    qsort(all, log->count, sizeof *all, compare);
    return all;
}

size_t broker_log_different_ids(const broker_log *log)
{
    broker_entry **all = sorted(log, compare_ids);
    size_t count = 0;
    for (size_t i = 0; i < log->count; i++)
        count += !i || strcmp(all[i]->id, all[i - 1]->id) != 0;
    free(all);
    return count;
}

size_t broker_log_different_bodies(const broker_log *log)
{
    broker_entry **all = sorted(log, compare_bodies);
    size_t count = 0;
    for (size_t i = 0; i < log->count; i++)
        count += !i || strcmp(all[i]->body, all[i - 1]->body) != 0;
    free(all);
    return count;
}

void broker_log_drop_copies(broker_log *log)
{
    broker_entry **all = sorted(log, compare_ids);
    size_t kept = 0;
    for (size_t i = log->count; i-- > 1;)
        if (strcmp(all[i]->id, all[i - 1]->id) == 0)
            all[i]->topic[0] = 0; /* no entry that was read has an empty one */
    free(all);
    for (size_t i = 0; i < log->count; i++)
        if (log->entries[i].topic[0])
            log->entries[kept++] = log->entries[i];
    log->count = kept;
}

static int seen_before(const broker_log *log, size_t index)
{
    const broker_entry *e = &log->entries[index];
    for (size_t i = 0; i < index; i++)
        if (strcmp(log->entries[i].id, e->id) == 0 && strcmp(log->entries[i].body, e->body) == 0)
            return 1;
    return 0;
}

size_t broker_log_ids(const broker_log *log, const char *body)
{
    size_t ids = 0;
    for (size_t i = 0; i < log->count; i++)
        ids += strcmp(log->entries[i].body, body) == 0 && !seen_before(log, i);
    return ids;
}

size_t broker_log_copies(const broker_log *log, const char *body)
{
    size_t copies = 0;
    for (size_t i = 0; i < log->count; i++)
        copies += strcmp(log->entries[i].body, body) == 0;
    return copies;
}

int broker_log_is_ordered(const broker_log *log)
{
    for (size_t i = 0; i < log->count; i++) {
        const broker_entry *e = &log->entries[i];
        if (strcmp(e->group, "-") == 0 || seen_before(log, i))
            continue;
        for (size_t j = 0; j < i; j++)
            if (strcmp(log->entries[j].group, e->group) == 0 &&
                atol(log->entries[j].body) > atol(e->body))
                return 0;
    }
    return 1;
}
