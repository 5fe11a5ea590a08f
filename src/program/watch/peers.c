/* See peers.h. A row is fresh for three times the period in which it is written: a process may be
 * slow, or its store away for a moment. On this host the socket knows better: one that refuses
 * connections, or is not there while the process is not either, belonged to a process that was
 * killed. */
#include "program/watch/peers.h"

#include "program/run/live_internal.h"
#include "program/support/show.h"
#include "program/support/strict_json.h"

#include <dirent.h>
#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRESH_MS = 3 * LIVE_PERIOD_MS, ANSWER_MAX = 8 << 20, DEPTH_MAX = 8, NS_PER_MS = 1000000 };

static peer *add_peer(peers *to)
{
    if (to->count == to->room) {
        to->room = to->room ? 2 * to->room : 8;
        to->items = must_realloc(to->items, to->room * sizeof *to->items);
    }
    to->items[to->count] = (peer){.id = "", .host = "", .socket = "", .data = ""};
    return &to->items[to->count++];
}

void peers_free(peers *all)
{
    free(all->items);
    region_free(&all->memory);
    *all = (peers){0};
}

size_t peers_count(const peers *all, peer_reach reach)
{
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++)
        count += all->items[i].reach == reach;
    return count;
}

void peer_name(buffer *to, const peer *p)
{
    show_text(to, p->host, strlen(p->host), 0);
    buffer_printf(to, " pid %lld", (long long)p->pid);
}

/* --- rows ------------------------------------------------------------------------------------- */

typedef struct listing {
    peers *to;
    int64_t now_ms;
    char host[LIVE_HOST_SIZE];
} listing;

static int is_gone(const semel_process *row, int error)
{
    return error == ECONNREFUSED ||
           (error == ENOENT && kill((pid_t)row->pid, 0) != 0 && errno == ESRCH);
}

/* 0: it is not running any more. */
static peer_reach reach_of(const listing *l, const semel_process *row)
{
    int is_fresh = l->now_ms - row->seen_ms < FRESH_MS;
    if (strcmp(row->host, l->host) != 0)
        return is_fresh ? PEER_REMOTE : (peer_reach)0;
    if (!*row->socket)
        return is_fresh ? PEER_CLOSED : (peer_reach)0;
    int fd = socket_connect(row->socket);
    if (fd < 0 && errno != EAGAIN)
        return is_fresh && !is_gone(row, errno) ? PEER_CLOSED : (peer_reach)0;
    if (fd >= 0)
        (void)close(fd);
    return PEER_LOCAL;
}

static const char *copy(peers *to, const char *text)
{
    return region_copy(&to->memory, text, strlen(text));
}

static semel_status visit(const semel_process *row, void *context, semel_error *err)
{
    listing *l = context;
    peer_reach reach = reach_of(l, row);
    (void)err;
    if (!reach)
        return SEMEL_OK;
    peer *p = add_peer(l->to);
    *p = (peer){.id = copy(l->to, row->id),
                .host = copy(l->to, row->host),
                .pid = row->pid,
                .started_ms = row->started_ms,
                .seen_ms = row->seen_ms,
                .socket = copy(l->to, row->socket),
                .data = copy(l->to, row->data),
                .reach = reach};
    return SEMEL_OK;
}

semel_status peers_in_store(peers *out, semel_store *store, semel_error *err)
{
    listing l = {.to = out};
    *out = (peers){0};
    (void)gethostname(l.host, sizeof l.host - 1);
    semel_status status = semel_store_now(&l.now_ms, store, err);
    if (!status)
        status = semel_process_list(store, visit, &l, err);
    if (status)
        peers_free(out);
    return status;
}

/* --- sockets ---------------------------------------------------------------------------------- */

static void add_sockets(peers *to, const char *directory)
{
    DIR *open = opendir(directory);
    struct dirent *entry;
    char path[SOCKET_PATH_SIZE];
    while (open && (entry = readdir(open))) {
        const char *dot = strrchr(entry->d_name, '.');
        if (*entry->d_name == '.' || !dot || strcmp(dot, ".sock") != 0 ||
            (size_t)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) >= sizeof path)
            continue;
        peer *p = add_peer(to);
        p->socket = copy(to, path);
        p->reach = PEER_LOCAL;
    }
    if (open)
        (void)closedir(open);
}

void peers_on_host(peers *out)
{
    const char *directories[SOCKET_DIRECTORIES_MAX];
    *out = (peers){0};
    size_t count = socket_directories(directories, &out->memory);
    for (size_t i = 0; i < count; i++)
        add_sockets(out, directories[i]);
}

/* --- questions -------------------------------------------------------------------------------- */

int peer_begin(const peer *p, const char *question)
{
    int fd = socket_connect(p->socket);
    if (fd < 0)
        return -1;
    size_t len = strlen(question);
    if (send(fd, question, len, MSG_NOSIGNAL) == (ssize_t)len) /* it fits into the buffer */
        return fd;
    (void)close(fd);
    return -1;
}

/* Reads until the end of the line; 0: there is no more, or the time is over. */
static int read_some(int fd, buffer *to, int64_t until_ns)
{
    char data[16384];
    int64_t left_ms = (until_ns - steady_clock_ns()) / NS_PER_MS;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    if (left_ms <= 0 || poll(&wait, 1, (int)left_ms) <= 0)
        return 0;
    ssize_t len = recv(fd, data, sizeof data, MSG_DONTWAIT);
    if (len > 0)
        buffer_add(to, data, (size_t)len);
    return len > 0 && to->len < ANSWER_MAX && data[len - 1] != '\n';
}

static const char *parse(struct json_object **out, const buffer *line)
{
    struct json_object *error = NULL, *answer = NULL;
    semel_bytes text = {line->data, line->len};
    if (!line->len || line->data[line->len - 1] != '\n')
        return "no answer in time";
    if (!strict_json_parse(&answer, text, DEPTH_MAX, NULL))
        return "an answer that is not understood";
    if (json_object_object_get_ex(answer, "error", &error)) {
        json_object_put(answer);
        return "the question was refused";
    }
    *out = answer;
    return NULL;
}

const char *peer_ask(struct json_object **out, const peer *p, const char *question,
                     int64_t timeout_ms)
{
    enum { TIMEOUT_MAX_MS = 3600000 };
    buffer line = {0};
    int64_t wait_ms = timeout_ms < TIMEOUT_MAX_MS ? timeout_ms : TIMEOUT_MAX_MS;
    int64_t until_ns = steady_clock_ns() + wait_ms * NS_PER_MS;
    int fd = peer_begin(p, question);
    if (fd < 0)
        return errno == EACCES || errno == EPERM ? "another user's process"
                                                 : "the process does not answer";
    while (read_some(fd, &line, until_ns))
        continue;
    (void)close(fd);
    const char *wrong = parse(out, &line);
    buffer_free(&line);
    return wrong;
}
