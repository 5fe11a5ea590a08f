/* Each wait is a poll() with what is left of the caller's time. A plain connection waits for its
 * answers in recv(), which returns every SLICE_MS to look at the clock: a system call less for each
 * answer. Only looking up a name has deadlines of its own.
 *
 * TLS verifies the certificate and the host's name, against the system's authorities unless the URL
 * names a file. OpenSSL writes without MSG_NOSIGNAL, so SIGPIPE is kept from the
 * thread meanwhile. */
#include "redis/socket.h"

#include "base/sigpipe.h"
#include "base/wait.h"
#include "redis/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SLICE_MS = 100 };

/* --- waiting ---------------------------------------------------------------------------------- */

static int is_over(redis_socket *s)
{
    (void)snprintf(s->why, sizeof s->why, "no answer in time");
    return 0;
}

static int is_lost(redis_socket *s, int error)
{
    (void)snprintf(s->why, sizeof s->why, "%s",
                   error ? strerror(error) : "the server closed the connection");
    return 0;
}

/* 1: ready. 0: the time is over, or poll() failed. */
static int wait_for(redis_socket *s, short events, int64_t until_ms)
{
    for (;;) {
        int64_t left = until_ms - wait_clock_ms();
        struct pollfd one = {.fd = s->fd, .events = events};
        int ready = poll(&one, 1, left > 0 ? (int)(left < 60000 ? left : 60000) : 0);
        if (ready > 0)
            return 1;
        if (ready < 0 && errno != EINTR)
            return is_lost(s, errno);
        if (left <= 0)
            return is_over(s);
    }
}

/* --- connecting ------------------------------------------------------------------------------- */

static int make_quick(int fd)
{
    int on = 1, idle = 20, every = 5;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on,
                     sizeof on); /* not on a socket of the host */
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    return fd;
}

static int connect_to(redis_socket *s, int family, const struct sockaddr *to, socklen_t len,
                      int64_t until_ms)
{
    s->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0)
        return is_lost(s, errno);
    int error = connect(s->fd, to, len) ? errno : 0;
    if (error == EINPROGRESS || error == EINTR) {
        socklen_t room = sizeof error;
        if (wait_for(s, POLLOUT, until_ms) &&
            getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &room) == 0 && !error)
            return make_quick(s->fd) >= 0;
        if (error == EINPROGRESS || error == EINTR)
            error = ETIMEDOUT;
    } else if (!error) {
        return make_quick(s->fd) >= 0;
    }
    (void)is_lost(s, error);
    redis_socket_close(s);
    return 0;
}

static int connect_by_path(redis_socket *s, const char *path, int64_t until_ms)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    (void)snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    return connect_to(s, AF_UNIX, (const struct sockaddr *)&to, sizeof to, until_ms);
}

static int connect_by_name(redis_socket *s, const char *host, uint32_t port, int64_t until_ms)
{
    char service[16];
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    (void)snprintf(service, sizeof service, "%u", port);
    int code = getaddrinfo(host, service, &hints, &found);
    if (code) {
        (void)snprintf(s->why, sizeof s->why, "%s", gai_strerror(code));
        return 0;
    }
    int connected = 0;
    for (const struct addrinfo *one = found; one && !connected; one = one->ai_next)
        connected = connect_to(s, one->ai_family, one->ai_addr, one->ai_addrlen, until_ms);
    freeaddrinfo(found);
    return connected;
}

void redis_socket_close(redis_socket *s)
{
    if (s->tls)
        SSL_free(s->tls); /* no goodbye, which could block */
    if (s->fd >= 0)
        (void)close(s->fd);
    s->tls = NULL;
    s->fd = -1;
}

/* --- TLS -------------------------------------------------------------------------------------- */

/* Keeps OpenSSL from asking at the terminal. */
static int no_passphrase(char *out, int room, int writing, void *context)
{
    (void)out, (void)room, (void)writing, (void)context;
    return 0;
}

static semel_status read_files(SSL_CTX *tls, const redis_address *at, semel_error *err)
{
    if (at->ca ? SSL_CTX_load_verify_locations(tls, at->ca, NULL) != 1
               : SSL_CTX_set_default_verify_paths(tls) != 1)
        return semel_fail(err, SEMEL_EINVAL,
                          "TLS: the authorities' file %s cannot be used: is it there, readable, "
                          "PEM?",
                          at->ca ? at->ca : "of the system");
    if (at->certificate && (SSL_CTX_use_certificate_chain_file(tls, at->certificate) != 1 ||
                            SSL_CTX_use_PrivateKey_file(tls, at->key, SSL_FILETYPE_PEM) != 1 ||
                            SSL_CTX_check_private_key(tls) != 1))
        return semel_fail(err, SEMEL_EINVAL,
                          "TLS: the certificate %s or the key %s cannot be used: are they there, "
                          "readable, PEM, without a passphrase, and of each other?",
                          at->certificate, at->key);
    return SEMEL_OK;
}

semel_status redis_tls_prepare(SSL_CTX **out, const redis_address *at, semel_error *err)
{
    *out = NULL;
    if (!at->tls)
        return SEMEL_OK;
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    if (!tls)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for TLS");
    SSL_CTX_set_default_passwd_cb(tls, no_passphrase);
    SSL_CTX_set_verify(tls, at->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    semel_status status =
        SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) == 1
            ? read_files(tls, at, err)
            : semel_fail(err, SEMEL_EUNSUPPORTED, "TLS: this OpenSSL has no TLS 1.2");
    if (status)
        SSL_CTX_free(tls);
    else
        *out = tls;
    ERR_clear_error();
    return status;
}

/* What a call of OpenSSL returned: 1: do it again. 0: it failed. */
static int go_on(redis_socket *s, int returned, int64_t until_ms)
{
    int error = SSL_get_error(s->tls, returned);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return wait_for(s, error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, until_ms);
    unsigned long code = ERR_peek_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    if (error == SSL_ERROR_SSL && reason)
        (void)snprintf(s->why, sizeof s->why, "TLS: %s", reason);
    else
        (void)is_lost(s, error == SSL_ERROR_SYSCALL ? errno : 0);
    ERR_clear_error();
    return 0;
}

static int name_peer(SSL *tls, const char *host, int verify)
{
    unsigned char address[16];
    int is_number =
        inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
    if (!is_number && SSL_set_tlsext_host_name(tls, host) != 1)
        return 0;
    if (!verify)
        return 1;
    return is_number ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host) == 1
                     : SSL_set1_host(tls, host) == 1;
}

static int shake_hands(redis_socket *s, int64_t until_ms)
{
    for (;;) {
        errno = 0;
        ERR_clear_error();
        int done = SSL_connect(s->tls);
        if (done == 1)
            return 1;
        if (!go_on(s, done, until_ms))
            return 0;
    }
}

static semel_status start_tls(redis_socket *s, const redis_client *client, const char *host,
                              uint32_t port, int64_t until_ms, semel_error *err)
{
    const redis_role *role = client->role;
    int verify = client->at->verify;
    sigpipe_guard guard;
    s->tls = SSL_new(client->tls);
    if (!s->tls || SSL_set_fd(s->tls, s->fd) != 1 || !name_peer(s->tls, host, verify))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a TLS connection");
    sigpipe_guard_up(&guard, 1);
    int connected = shake_hands(s, until_ms);
    sigpipe_guard_down(&guard);
    if (connected)
        return SEMEL_OK;
    long verdict = SSL_get_verify_result(s->tls);
    if (verify && verdict != X509_V_OK)
        return semel_fail(err, role->broken,
                          "%s: the certificate of %s:%u is not to be trusted: %s; is it signed "
                          "by one of ca=, and for this host name?",
                          role->title, host, port, X509_verify_cert_error_string(verdict));
    return semel_fail(err, SEMEL_EUNAVAILABLE,
                      "%s: no TLS with %s:%u: %s; does it speak TLS at this port?", role->title,
                      host, port, s->why);
}

/* From here on recv() without MSG_DONTWAIT waits, and nothing else. */
static void block(int fd)
{
    struct timeval slice = {.tv_usec = SLICE_MS * 1000};
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice) == 0)
        (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

semel_status redis_socket_open(redis_socket *out, const redis_client *client, const char *host,
                               uint32_t port, int64_t until_ms, semel_error *err)
{
    const redis_address *at = client->at;
    const char *title = client->role->title;
    memset(out, 0, sizeof *out);
    out->fd = -1;
    if (at->socket ? !connect_by_path(out, at->socket, until_ms)
                   : !connect_by_name(out, host, port, until_ms)) {
        if (at->socket)
            return semel_fail(err, SEMEL_EUNAVAILABLE, "%s: cannot connect to %s: %s", title,
                              at->socket, out->why);
        return semel_fail(err, SEMEL_EUNAVAILABLE, "%s: cannot connect to %s:%u: %s", title, host,
                          port, out->why);
    }
    if (!client->tls)
        block(out->fd);
    semel_status status =
        client->tls ? start_tls(out, client, host, port, until_ms, err) : SEMEL_OK;
    if (status)
        redis_socket_close(out);
    return status;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static int send_tls(redis_socket *s, const char *from, size_t len, int64_t until_ms, size_t *left)
{
    sigpipe_guard guard;
    int good = 1;
    sigpipe_guard_up(&guard, 1);
    while (good && len) {
        size_t written = 0;
        errno = 0;
        ERR_clear_error();
        int done = SSL_write_ex(s->tls, from, len, &written);
        good = done == 1 || go_on(s, done, until_ms);
        from += written;
        len -= written;
        *left -= written;
    }
    sigpipe_guard_down(&guard);
    return good;
}

/* Moves the parts on by what was sent. */
static int skip(struct iovec parts[], int count, size_t sent)
{
    int first = 0;
    while (first < count && sent >= parts[first].iov_len)
        sent -= parts[first++].iov_len;
    if (first < count) {
        parts[first].iov_base = (char *)parts[first].iov_base + sent;
        parts[first].iov_len -= sent;
    }
    return first;
}

static int send_plain(redis_socket *s, struct iovec parts[], int count, int64_t until_ms,
                      size_t *left)
{
    while (count) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
        ssize_t sent = sendmsg(s->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return is_lost(s, errno);
        if (sent < 0 && !wait_for(s, POLLOUT, until_ms))
            return 0;
        *left -= sent > 0 ? (size_t)sent : 0;
        int done = sent > 0 ? skip(parts, count, (size_t)sent) : 0;
        parts += done;
        count -= done;
    }
    return 1;
}

static size_t size_of(const struct iovec parts[], int count)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += parts[i].iov_len;
    return size;
}

int redis_socket_send(redis_socket *s, const struct iovec parts[], int count, int64_t until_ms,
                      size_t *left)
{
    enum { PARTS_MAX = 8 };
    struct iovec copy[PARTS_MAX];
    *left = size_of(parts, count);
    if (count > PARTS_MAX)
        return is_lost(s, EINVAL);
    memcpy(copy, parts, (size_t)count * sizeof *copy);
    if (!s->tls)
        return send_plain(s, copy, count, until_ms, left);
    for (int i = 0; i < count; i++)
        if (!send_tls(s, copy[i].iov_base, copy[i].iov_len, until_ms, left))
            return 0;
    return 1;
}

static long receive_tls(redis_socket *s, void *out, size_t room, int64_t until_ms)
{
    for (;;) {
        size_t got = 0;
        errno = 0;
        ERR_clear_error();
        int done = SSL_read_ex(s->tls, out, room, &got);
        if (done == 1)
            return (long)got;
        if (!until_ms && SSL_get_error(s->tls, done) == SSL_ERROR_WANT_READ)
            return -1;
        if (!go_on(s, done, until_ms))
            return 0;
    }
}

long redis_socket_receive(redis_socket *s, void *out, size_t room, int64_t until_ms)
{
    if (s->tls)
        return receive_tls(s, out, room, until_ms);
    for (;;) {
        ssize_t got = recv(s->fd, out, room, until_ms ? 0 : MSG_DONTWAIT);
        if (got > 0)
            return (long)got;
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            return is_lost(s, got == 0 ? 0 : errno);
        if (!until_ms)
            return -1;
        if (wait_clock_ms() >= until_ms)
            return is_over(s);
    }
}

/* With TLS there may be records that carry no data. */
int redis_socket_is_quiet(redis_socket *s)
{
    struct pollfd one = {.fd = s->fd, .events = POLLIN};
    char byte;
    size_t got = 0;
    if (poll(&one, 1, 0) == 0)
        return 1;
    if (!s->tls)
        return 0;
    ERR_clear_error();
    int done = SSL_peek_ex(s->tls, &byte, 1, &got);
    return done != 1 && SSL_get_error(s->tls, done) == SSL_ERROR_WANT_READ;
}
