/* A thread for each connection; the lock is for rules and for what was heard. See http_script.h. */
#include "support/servers/http_script.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    RULES_MAX = 64,
    CONNECTIONS_MAX = 256,
    HEARD_MAX = 4096,
    PATTERN_ROOM = 128,
    HEAD_MAX = 65536
};

typedef enum fate { ANSWER, LOSE_ANSWER, LOSE_REQUEST, PASS_ON } fate_kind;

typedef struct rule {
    fate_kind fate;
    char pattern[PATTERN_ROOM];
    unsigned left;
    int status;
    char *body;
    char header[PATTERN_ROOM];
} rule;

typedef struct connection {
    http_script *script;
    pthread_t thread;
    int client;
} connection;

struct http_script {
    pthread_mutex_t lock;
    pthread_t thread;
    int listener, closing;
    unsigned port, upstream;
    rule rules[RULES_MAX];
    size_t rule_count;
    connection *connections[CONNECTIONS_MAX];
    size_t connection_count;
    char *heard[HEARD_MAX];
    size_t heard_count;
};

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "http_script: cannot %s: %s\n", what, strerror(errno));
    abort();
}

/* --- messages --------------------------------------------------------------------------------- */

static int send_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t sent = send(fd, data, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return 0;
        data += sent;
        len -= (size_t)sent;
    }
    return 1;
}

static size_t body_length(const char *head)
{
    const char *found = strcasestr(head, "\r\ncontent-length:");
    return found ? strtoul(found + strlen("\r\ncontent-length:"), NULL, 10) : 0;
}

/* A whole message, with a NUL behind it; NULL when the connection ends. *len is its length. */
static char *receive_message(int fd, size_t *len)
{
    size_t room = HEAD_MAX, used = 0, whole = 0;
    char *text = malloc(room + 1);
    while (text && (!whole || used < whole)) {
        if (used == room && !(text = realloc(text, (room *= 2) + 1)))
            break;
        ssize_t got = recv(fd, text + used, whole ? whole - used : 1, 0);
        if (got <= 0) {
            free(text);
            return NULL;
        }
        used += (size_t)got;
        text[used] = 0;
        if (!whole && used >= 4 && memcmp(text + used - 4, "\r\n\r\n", 4) == 0)
            whole = used + body_length(text);
        if (whole > room && !(text = realloc(text, (room = whole) + 1)))
            break;
    }
    if (!text)
        die("remember a message");
    *len = used;
    return text;
}

static int connect_upstream(const http_script *s)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)s->upstream),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = s->upstream ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* --- rules ------------------------------------------------------------------------------------ */

/* Its fate, and a copy of the rule that decided. */
static fate_kind judge(http_script *s, const char *text, rule *out)
{
    fate_kind fate = PASS_ON;
    pthread_mutex_lock(&s->lock);
    if (s->heard_count < HEARD_MAX)
        s->heard[s->heard_count++] = strdup(text);
    for (size_t i = 0; i < s->rule_count && fate == PASS_ON; i++) {
        if (!s->rules[i].left || !strstr(text, s->rules[i].pattern))
            continue;
        s->rules[i].left--;
        *out = s->rules[i];
        out->body = out->body ? strdup(out->body) : NULL; /* the rule may be forgotten meanwhile */
        fate = out->fate;
    }
    pthread_mutex_unlock(&s->lock);
    return fate;
}

static int send_answer(int fd, int status, const char *body, const char *header)
{
    char head[512], date[64];
    time_t now = time(NULL);
    struct tm utc;
    (void)strftime(date, sizeof date, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", gmtime_r(&now, &utc));
    int len = snprintf(
        head, sizeof head, "HTTP/1.1 %d Scripted\r\nContent-Length: %zu\r\n%s%s%s\r\n", status,
        strlen(body), strncmp(header, "Date", 4) == 0 ? "" : date, header, *header ? "\r\n" : "");
    return send_all(fd, head, (size_t)len) && send_all(fd, body, strlen(body));
}

/* 1 if the connection goes on. */
static int pass_on(http_script *s, int client, const char *text, size_t len, int answer)
{
    int upstream = connect_upstream(s), fine = 0;
    if (upstream < 0)
        return answer && send_answer(client, s->upstream ? 502 : 404, "{}", "");
    size_t answer_len = 0;
    char *said = send_all(upstream, text, len) ? receive_message(upstream, &answer_len) : NULL;
    if (said && answer)
        fine = send_all(client, said, answer_len);
    free(said);
    close(upstream);
    return fine;
}

static int serve_one(http_script *s, int client, const char *text, size_t len)
{
    rule found = {.status = 0};
    int goes_on = 0;
    switch (judge(s, text, &found)) {
    case ANSWER:
        goes_on = send_answer(client, found.status, found.body, found.header);
        free(found.body);
        return goes_on;
    case LOSE_ANSWER:
        return pass_on(s, client, text, len, 0);
    case LOSE_REQUEST:
        return 0;
    case PASS_ON:
    default:
        return pass_on(s, client, text, len, 1);
    }
}

static void *serve(void *context)
{
    connection *c = context;
    size_t len;
    char *text;
    while ((text = receive_message(c->client, &len)) != NULL) {
        int goes_on = serve_one(c->script, c->client, text, len);
        free(text);
        if (!goes_on)
            break;
    }
    shutdown(c->client, SHUT_RDWR);
    return NULL;
}

static void *listen_for(void *context)
{
    http_script *s = context;
    for (;;) {
        int client = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
        connection *c = client < 0 ? NULL : calloc(1, sizeof *c);
        pthread_mutex_lock(&s->lock);
        int full = s->closing || !c || s->connection_count == CONNECTIONS_MAX;
        if (!full) {
            *c = (connection){.script = s, .client = client};
            s->connections[s->connection_count++] = c;
            if (pthread_create(&c->thread, NULL, serve, c) != 0)
                die("start a thread");
        }
        pthread_mutex_unlock(&s->lock);
        if (full) {
            free(c);
            if (client >= 0)
                close(client);
            return NULL;
        }
    }
}

/* --- the test's side -------------------------------------------------------------------------- */

http_script *http_script_open(unsigned upstream_port)
{
    http_script *s = calloc(1, sizeof *s);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    if (!s || (s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0 ||
        bind(s->listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(s->listener, 64) != 0 ||
        getsockname(s->listener, (struct sockaddr *)&at, &len) != 0)
        die("listen");
    s->port = ntohs(at.sin_port);
    s->upstream = upstream_port;
    pthread_mutex_init(&s->lock, NULL);
    if (pthread_create(&s->thread, NULL, listen_for, s) != 0)
        die("start a thread");
    return s;
}

void http_script_close(http_script *s)
{
    pthread_mutex_lock(&s->lock);
    s->closing = 1;
    pthread_mutex_unlock(&s->lock);
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->listener);
    for (size_t i = 0; i < s->connection_count; i++) {
        shutdown(s->connections[i]->client, SHUT_RDWR);
        pthread_join(s->connections[i]->thread, NULL);
        close(s->connections[i]->client);
        free(s->connections[i]);
    }
    http_script_forget(s);
    for (size_t i = 0; i < s->heard_count; i++)
        free(s->heard[i]);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

unsigned http_script_port(const http_script *s)
{
    return s->port;
}

static void add(http_script *s, const rule *new)
{
    pthread_mutex_lock(&s->lock);
    if (s->rule_count == RULES_MAX)
        die("remember more rules");
    s->rules[s->rule_count++] = *new;
    pthread_mutex_unlock(&s->lock);
}

void http_script_answer_with(http_script *s, const char *pattern, unsigned times, int status,
                             const char *body, const char *header)
{
    rule new = {.fate = ANSWER, .left = times, .status = status, .body = strdup(body)};
    (void)snprintf(new.pattern, sizeof new.pattern, "%s", pattern);
    (void)snprintf(new.header, sizeof new.header, "%s", header);
    add(s, &new);
}

void http_script_answer(http_script *s, const char *pattern, unsigned times, int status,
                        const char *body)
{
    http_script_answer_with(s, pattern, times, status, body, "");
}

static void lose(http_script *s, fate_kind fate, const char *pattern, unsigned times)
{
    rule new = {.fate = fate, .left = times};
    (void)snprintf(new.pattern, sizeof new.pattern, "%s", pattern);
    add(s, &new);
}

void http_script_lose_answer(http_script *s, const char *pattern, unsigned times)
{
    lose(s, LOSE_ANSWER, pattern, times);
}

void http_script_lose_request(http_script *s, const char *pattern, unsigned times)
{
    lose(s, LOSE_REQUEST, pattern, times);
}

void http_script_forget(http_script *s)
{
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->rule_count; i++)
        free(s->rules[i].body);
    s->rule_count = 0;
    pthread_mutex_unlock(&s->lock);
}

unsigned http_script_count(http_script *s, const char *pattern)
{
    unsigned count = 0;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->heard_count; i++)
        count += s->heard[i] && strstr(s->heard[i], pattern) != NULL;
    pthread_mutex_unlock(&s->lock);
    return count;
}

void http_script_last(http_script *s, const char *pattern, char *out, size_t room)
{
    out[0] = 0;
    pthread_mutex_lock(&s->lock);
    for (size_t i = s->heard_count; i > 0 && !out[0]; i--)
        if (s->heard[i - 1] && strstr(s->heard[i - 1], pattern))
            (void)snprintf(out, room, "%s", s->heard[i - 1]);
    pthread_mutex_unlock(&s->lock);
}
