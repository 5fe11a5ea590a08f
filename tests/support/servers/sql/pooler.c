/* See pooler.h. */
#include "support/servers/sql/pooler.h"

#include "support/base/check.h"
#include "support/base/scratch.h"
#include "support/process/process.h"
#include "support/servers/server_internal.h"

#ifdef SEMEL_WITH_POSTGRES

#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* The port is only a part of the socket's name. */
enum { START_MS = 60000, PORT = 6432, PATH_ROOM = 108, SESSIONS = 4 };

static struct pooler {
    pid_t pid, parent;
    scratch scratch;
    char directory[64]; /* its path: a socket takes a short one */
    char settings[PATH_ROOM];
    const struct passwd *user; /* it does not run as root */
} running;

/* The usual reset between two clients of a session, DISCARD ALL, would take its search_path
 * away. */
static void write_settings(const pooler_settings *settings)
{
    (void)snprintf(running.settings, sizeof running.settings, "%s/ini", running.directory);
    FILE *file = fopen(running.settings, "we");
    assert_non_null(file);
    (void)fprintf(file,
                  "[databases]\n"
                  "* = host=127.0.0.1 port=%u user=postgres connect_query='SET search_path TO %s'\n"
                  "[pgbouncer]\nauth_type = any\nunix_socket_dir = %s\nlisten_port = %d\n"
                  "logfile = %s/log\npool_mode = %s\nserver_round_robin = 1\n"
                  "max_client_conn = 500\n"
                  "server_reset_query = RESET ALL; DEALLOCATE ALL; UNLISTEN *; "
                  "SELECT pg_advisory_unlock_all(); SET search_path TO %s\n",
                  settings->port, settings->path, running.directory, PORT, running.directory,
                  settings->mode, settings->path);
    if (*settings->ignored)
        (void)fprintf(file, "ignore_startup_parameters = %s\n", settings->ignored);
    assert_int_equal(fclose(file), 0);
}

/* A process that changes its user is not told of its parent's death any more, unless it asks
 * again. */
static int become_pooler(void *context)
{
    const struct passwd *user = running.user;
    (void)context;
    if (user && (setgid(user->pw_gid) || setuid(user->pw_uid)))
        return PROCESS_REQUIRED;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != running.parent)
        return PROCESS_REQUIRED;
    (void)execlp("pgbouncer", "pgbouncer", "-q", running.settings, (char *)NULL);
    (void)execl("/usr/sbin/pgbouncer", "pgbouncer", "-q", running.settings, (char *)NULL);
    perror("pgbouncer (dev/setup test installs it)");
    return PROCESS_REQUIRED;
}

static int answers(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s/.s.PGSQL.%d", running.directory, PORT);
    int answered = connect(fd, (const struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return answered;
}

static void await_start(void)
{
    int64_t deadline = process_now_ms() + START_MS;
    siginfo_t ended = {0};
    while (!answers()) {
        (void)waitid(P_PID, (id_t)running.pid, &ended, WEXITED | WNOHANG | WNOWAIT);
        if (ended.si_pid || process_now_ms() > deadline)
            fail_msg("pgbouncer does not start; see %s/log", running.directory);
        process_nap();
    }
}

/* It has no more of them than were in use at once. */
static void make_sessions(void)
{
    char text[2 * PATH_ROOM];
    PGconn *clients[SESSIONS];
    (void)snprintf(text, sizeof text, "host=%s port=%d user=postgres dbname=postgres",
                   running.directory, PORT);
    for (int i = 0; i < SESSIONS; i++) {
        clients[i] = PQconnectdb(text);
        PQclear(PQexec(clients[i], "BEGIN"));
        if (PQtransactionStatus(clients[i]) != PQTRANS_INTRANS)
            fail_msg("pgbouncer: %s", PQerrorMessage(clients[i]));
    }
    for (int i = 0; i < SESSIONS; i++) {
        PQclear(PQexec(clients[i], "ROLLBACK"));
        PQfinish(clients[i]);
    }
}

void pooler_start(const pooler_settings *settings)
{
    pooler_end(); /* that of a test that failed */
    running.parent = getpid();
    running.user = getuid() == 0 ? getpwnam("postgres") : NULL;
    scratch_open(&running.scratch);
    assert_true(strlen(running.scratch.path) < sizeof running.directory);
    memcpy(running.directory, running.scratch.path, strlen(running.scratch.path) + 1);
    write_settings(settings);
    if (running.user)
        assert_int_equal(chown(running.directory, running.user->pw_uid, running.user->pw_gid), 0);
    running.pid = process_start(become_pooler, NULL);
    await_start();
    make_sessions();
}

void pooler_end(void)
{
    if (!running.pid)
        return;
    kill(running.pid, SIGKILL);
    (void)process_wait(running.pid, START_MS);
    scratch_close(&running.scratch);
    running.pid = 0;
}

void pooler_url(char out[SERVER_URL_ROOM], const char *url)
{
    char schema[SERVER_NAME_ROOM];
    server_parameter(schema, url, "schema", "public");
    int len = snprintf(out, SERVER_URL_ROOM, "%.*s?schema=%s&host=%s&port=%d",
                       (int)strcspn(url, "?"), url, schema, running.directory, PORT);
    assert_true(len > 0 && len < SERVER_URL_ROOM);
}

#endif
