/* The options of a connection: servers, login, TLS, limits.
 *
 * TLS verifies the certificate and the host's name (nats.c is built so that it does), against the
 * system's authorities unless the URL names a file. Each server has connect_ms. nats.c is opened
 * once and never closed: other users of it in this process, and threads of it that still run, would
 * lose it. */
#include "base/mem.h"
#include "base/sigpipe.h"
#include "base/thread.h"
#include "base/wait.h"
#include "transport/nats/link.h"

#include <stdio.h>
#include <string.h>

enum { SERVERS_MAX = 16, SERVER_ROOM = JET_NAME_ROOM + 32, WRITE_MS = 10000, MS = 1000 };

/* --- callbacks -------------------------------------------------------------------------------- */

/* The last of a connection. */
static void on_closed(natsConnection *connection, void *closure)
{
    jet_link *link = closure;
    (void)connection;
    pthread_mutex_lock(&link->lock);
    jet_link_lose(link, "the connection was lost");
    link->callbacks--;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
}

/* The server has dropped a request, and does not say which; or nats.c has something to say. */
static void on_error(natsConnection *connection, natsSubscription *subscription, natsStatus code,
                     void *closure)
{
    jet_link *link = closure;
    (void)connection, (void)subscription;
    pthread_mutex_lock(&link->lock);
    link->complaint = code;
    pthread_mutex_unlock(&link->lock);
}

/* --- options ---------------------------------------------------------------------------------- */

static natsStatus set_servers(natsOptions *options, const jet_address *a)
{
    char texts[SERVERS_MAX][SERVER_ROOM];
    const char *servers[SERVERS_MAX];
    int count = 0;
    const char *open = strchr(a->host, ':') ? "[" : "", *close = *open ? "]" : "";
    (void)snprintf(texts[0], SERVER_ROOM, "nats://%s%s%s:%u", open, a->host, close,
                   (unsigned)a->port);
    servers[count++] = texts[0];
    for (const char *at = a->servers; *at && count < SERVERS_MAX;) {
        size_t len = strcspn(at, ",");
        (void)snprintf(texts[count], SERVER_ROOM, "nats://%.*s", (int)len, at);
        servers[count] = texts[count];
        count += len > 0;
        at += len + (at[len] == ',');
    }
    return natsOptions_SetServers(options, servers, count);
}

static natsStatus set_login(natsOptions *options, const jet_address *a)
{
    if (a->credentials[0])
        return natsOptions_SetUserCredentialsFromFiles(options, a->credentials, NULL);
    if (a->user[0] && a->password[0])
        return natsOptions_SetUserInfo(options, a->user, a->password);
    return a->user[0] ? natsOptions_SetToken(options, a->user) : NATS_OK;
}

static semel_status fail_tls(semel_error *err, const char *what, const char *file)
{
    return semel_fail(err, SEMEL_EINVAL, "TLS: %s %s cannot be used: is it there, readable, PEM?",
                      what, file);
}

static semel_status set_tls(natsOptions *options, const jet_address *a, semel_error *err)
{
    if (!a->tls)
        return SEMEL_OK;
    natsStatus code = natsOptions_SetSecure(options, true);
    if (code == NATS_OK && !a->verify)
        code = natsOptions_SkipServerVerification(options, true);
    if (code != NATS_OK)
        return jet_fail(a, code, "preparing TLS", err);
    if (a->ca[0] && natsOptions_LoadCATrustedCertificates(options, a->ca) != NATS_OK)
        return fail_tls(err, "the authorities' file", a->ca);
    if (a->certificate[0] &&
        natsOptions_LoadCertificatesChain(options, a->certificate, a->key) != NATS_OK)
        return semel_fail(err, SEMEL_EINVAL,
                          "TLS: the certificate %s or the key %s cannot be used: are they there, "
                          "readable, PEM, without a passphrase, and of each other?",
                          a->certificate, a->key);
    return SEMEL_OK;
}

/* A server that does not answer is noticed after a heartbeat and a half. */
static natsStatus set_rest(natsOptions *options, const jet_address *a, jet_link *link)
{
    natsStatus code = natsOptions_SetName(options, a->name);
    if (code == NATS_OK)
        code = natsOptions_SetAllowReconnect(options, false);
    if (code == NATS_OK)
        code = natsOptions_SetTimeout(options, a->connect_ms);
    if (code == NATS_OK)
        code = natsOptions_SetPingInterval(options, (int64_t)a->heartbeat_s * MS / 2);
    if (code == NATS_OK)
        code = natsOptions_SetMaxPingsOut(options, 1);
    if (code == NATS_OK)
        code = natsOptions_SetWriteDeadline(options, WRITE_MS);
    if (code == NATS_OK)
        code = natsOptions_UseGlobalMessageDelivery(options, false);
    if (code == NATS_OK)
        code = natsOptions_SetErrorHandler(options, on_error, link);
    return code == NATS_OK ? natsOptions_SetClosedCB(options, on_closed, link) : code;
}

static semel_status fill_options(natsOptions *options, jet_link *link, semel_error *err)
{
    const jet_address *a = link->address;
    if (set_servers(options, a) != NATS_OK)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: servers are host:port of the cluster's others, joined with commas");
    if (set_login(options, a) != NATS_OK)
        return semel_fail(err, SEMEL_EINVAL, "the credentials file %s cannot be read",
                          a->credentials);
    semel_status status = set_tls(options, a, err);
    if (status)
        return status;
    natsStatus code = set_rest(options, a, link);
    return code == NATS_OK ? SEMEL_OK : jet_fail(a, code, "preparing a connection", err);
}

/* --- connecting ------------------------------------------------------------------------------- */

static semel_status fail_to_connect(const jet_address *a, natsStatus code, semel_error *err)
{
    static const struct {
        natsStatus code;
        semel_status status;
        const char *advice;
    } known[] = {{NATS_CONNECTION_AUTH_FAILED, SEMEL_ETRANSPORT, "; are user and password right?"},
                 {NATS_SECURE_CONNECTION_REQUIRED, SEMEL_ETRANSPORT, "; natss: has TLS"},
                 {NATS_SECURE_CONNECTION_WANTED, SEMEL_ETRANSPORT, "; nats: has no TLS"},
                 {NATS_SSL_ERROR, SEMEL_ETRANSPORT,
                  "; is its certificate signed by one of ca=, and for this host name?"},
                 {NATS_NOT_PERMITTED, SEMEL_ETRANSPORT, ""},
                 {NATS_NO_MEMORY, SEMEL_ENOMEM, ""}};
    semel_status status = SEMEL_EUNAVAILABLE;
    const char *advice = "";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code) {
            status = known[i].status;
            advice = known[i].advice;
        }
    semel_fail(err, status, "cannot connect to %s:%u: %s%s", a->host, (unsigned)a->port,
               natsStatus_GetText(code), advice);
    if (err)
        err->native = (int32_t)code;
    return status;
}

/* Once for the process: the first connection would do it, and ignore SIGPIPE for all of it. */
static void open_library(void)
{
    (void)nats_Open(-1); /* if it fails, connecting fails, and says so */
}

static void open_library_once(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int is_open;
    pthread_mutex_lock(&lock);
    if (!is_open)
        sigpipe_undisturbed(open_library);
    is_open = 1;
    pthread_mutex_unlock(&lock);
}

/* The closed callback may come as soon as there is a connection: it is counted before. */
static natsStatus connect_counted(natsConnection **out, natsOptions *options, jet_link *link)
{
    thread_signals signals;
    pthread_mutex_lock(&link->lock);
    link->callbacks++;
    pthread_mutex_unlock(&link->lock);
    thread_signals_off(&signals); /* its threads inherit that */
    open_library_once();
    natsStatus code = natsConnection_Connect(out, options);
    thread_signals_on(&signals);
    if (code != NATS_OK) {
        pthread_mutex_lock(&link->lock);
        link->callbacks--;
        pthread_mutex_unlock(&link->lock);
    }
    return code;
}

semel_status jet_connect(natsConnection **out, jet_link *link, semel_error *err)
{
    natsOptions *options = NULL;
    thread_signals signals;
    thread_signals_off(&signals); /* the options may open the library */
    open_library_once();
    thread_signals_on(&signals);
    if (natsOptions_Create(&options) != NATS_OK)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a connection");
    semel_status status = fill_options(options, link, err);
    if (!status) {
        natsStatus code = connect_counted(out, options, link);
        if (code != NATS_OK)
            status = fail_to_connect(link->address, code, err);
    }
    natsOptions_Destroy(options);
    return status;
}
