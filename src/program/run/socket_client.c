/* See socket_client.h. Nothing here waits: descriptors do not block. */
#include "program/run/socket_client.h"

#include "program/support/binary.h"
#include "program/support/json_scan.h"
#include "program/support/show.h"
#include "program/support/strict_json.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { QUESTION_MAX = 65536, WAITING_MAX = 65536, DEPTH_MAX = 4 };
#define ASKING_MAX_NS  ((int64_t)10 * 1000000000)
#define READING_MAX_NS ((int64_t)60 * 1000000000)

void client_begin(client *c, int fd)
{
    *c = (client){.fd = fd, .moved_ns = steady_clock_ns()};
}

void client_end(client *c, taps *all)
{
    taps_remove(all, c->tap);
    (void)close(c->fd);
    buffer_free(&c->question);
    buffer_free(&c->answer);
    *c = (client){.fd = -1};
}

short client_events(const client *c)
{
    return (short)(POLLIN | (c->written < c->answer.len ? POLLOUT : 0));
}

/* One that waits for the answer to its question is not in fault. */
int client_hangs(const client *c)
{
    int64_t still = steady_clock_ns() - c->moved_ns;
    return (c->state == CLIENT_ASKS && still > ASKING_MAX_NS) ||
           (c->written < c->answer.len && still > READING_MAX_NS);
}

/* --- answers ---------------------------------------------------------------------------------- */

void client_answer(client *c, const buffer *text)
{
    buffer_add(&c->answer, text->data, text->len);
    buffer_text(&c->answer, "\n");
    c->state = CLIENT_ENDS;
}

static void refuse(client *c, const char *why)
{
    buffer text = {0};
    buffer_printf(&text, "{\"error\":\"%s\"}", why);
    client_answer(c, &text);
    buffer_free(&text);
}

int client_fill(client *c, const log *l)
{
    int came = 0;
    uint64_t lost = 0;
    while (c->answer.len - c->written < WAITING_MAX) {
        char *line = tap_next(c->tap, l);
        if (!line)
            break;
        buffer_text(&c->answer, line);
        buffer_text(&c->answer, "\n");
        free(line);
        came = 1;
    }
    if (c->answer.len - c->written < WAITING_MAX)
        lost = tap_take_lost(c->tap);
    if (lost)
        buffer_printf(&c->answer, "{\"lost\":%llu}\n", (unsigned long long)lost);
    return came;
}

static void forget_written(client *c)
{
    memmove(c->answer.data, c->answer.data + c->written, c->answer.len - c->written);
    c->answer.len -= c->written;
    c->written = 0;
}

int client_write(client *c)
{
    while (c->written < c->answer.len) {
        ssize_t len = send(c->fd, c->answer.data + c->written, c->answer.len - c->written,
                           MSG_NOSIGNAL | MSG_DONTWAIT);
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0) {
            int is_full = errno == EAGAIN;
            forget_written(c);
            return is_full;
        }
        c->written += (size_t)len;
        c->moved_ns = steady_clock_ns();
    }
    if (c->answer.len)
        forget_written(c);
    return c->state != CLIENT_ENDS;
}

/* --- questions -------------------------------------------------------------------------------- */

static const char *text_member(semel_bytes question, const char *name, region *memory)
{
    size_t len;
    semel_bytes value = scan_find(question, name);
    return value.data ? scan_text(&len, memory, value) : NULL;
}

static int read_list(argument_list *out, semel_bytes question, const char *name, region *memory)
{
    const char *at = NULL;
    size_t len;
    scan_member item;
    semel_bytes list = scan_find(question, name);
    while (list.data && *(const char *)list.data == '[' && scan_next(&item, &at, list)) {
        const char *text = scan_text(&len, memory, item.value);
        if (!text || out->count == ARGUMENTS_MAX)
            return 0;
        out->items[out->count++] = text;
    }
    return 1;
}

/* The key comes in hexadecimal digits, since it may be any bytes. */
static int read_filter(tap_filter *f, semel_bytes question)
{
    const char *key = text_member(question, "key", &f->memory);
    f->outcome = text_member(question, "outcome", &f->memory);
    return read_list(&f->inboxes, question, "inboxes", &f->memory) &&
           read_list(&f->types, question, "types", &f->memory) &&
           (!key || binary_from_hex(&f->key, &f->memory, key, strlen(key)));
}

static void begin_tail(client *c, live *all, semel_bytes question)
{
    tap_filter *filter = must_alloc(sizeof *filter);
    if (!read_filter(filter, question)) {
        region_free(&filter->memory);
        free(filter);
        refuse(c, "a filter that is none");
        return;
    }
    c->tap = taps_add(all->taps, filter);
    if (c->tap)
        c->state = CLIENT_TAILS;
    else
        refuse(c, "too many clients");
}

static uint32_t read_number(semel_bytes question, const char *name)
{
    semel_bytes value = scan_find(question, name);
    unsigned long number = value.data ? strtoul(value.data, NULL, 10) : 0;
    return number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
}

static void begin_answer(client *c, live *all, semel_bytes question)
{
    region memory = {0};
    buffer text = {0};
    const char *ask =
        strict_json_check(question, DEPTH_MAX, NULL) ? text_member(question, "ask", &memory) : NULL;
    if (ask && strcmp(ask, "stats") == 0) {
        live_write_stats(all, &text);
        client_answer(c, &text);
    } else if (ask && strcmp(ask, "health") == 0 && all->presence) {
        c->stalled_after_ms = read_number(question, "stalled_after_ms");
        c->state = CLIENT_WAITS;
    } else if (ask && strcmp(ask, "tail") == 0) {
        begin_tail(c, all, question);
    } else {
        refuse(c, "no such question");
    }
    buffer_free(&text);
    region_free(&memory);
}

/* What comes behind the question is not read. */
static void take(client *c, live *all, const char *data, size_t len)
{
    const char *end = memchr(data, '\n', len);
    c->moved_ns = steady_clock_ns();
    buffer_add(&c->question, data, end ? (size_t)(end - data) : len);
    if (end)
        begin_answer(c, all, (semel_bytes){c->question.data, c->question.len});
    else if (c->question.len > QUESTION_MAX)
        refuse(c, "a question that is too long");
}

/* A client that has asked and closes its side has gone: it does not want the answer any more. */
void client_read(client *c, live *all)
{
    char data[4096];
    ssize_t len = recv(c->fd, data, sizeof data, MSG_DONTWAIT);
    if (len > 0 && c->state == CLIENT_ASKS) {
        take(c, all, data, (size_t)len);
    } else if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR)) {
        c->state = CLIENT_ENDS;
        c->answer.len = c->written = 0;
    }
}
