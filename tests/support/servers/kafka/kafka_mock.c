#include "support/servers/kafka/kafka_mock.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_ROOM = 512 };

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "the mock cluster: %s (%s)\n", what, strerror(errno));
    abort();
}

static void become_mock(const int in[2], const int out[2], int brokers, int number)
{
    char count[16], own[16];
    (void)snprintf(count, sizeof count, "%d", brokers);
    (void)snprintf(own, sizeof own, "%d", number);
    if (dup2(in[0], STDIN_FILENO) < 0 || dup2(out[1], STDOUT_FILENO) < 0)
        die("no pipe");
    (void)close(in[0]);
    (void)close(in[1]);
    (void)close(out[0]);
    (void)close(out[1]);
    (void)execl(SEMEL_BINARY_DIR "/tests/semel-mock-kafka", "semel-mock-kafka", count, own,
                (char *)NULL);
    die("it cannot be started");
}

/* Its own end of the pipes goes with the process, and so does the mock then: it ends with its
 * input. */
void kafka_mock_start(kafka_mock *mock, int brokers)
{
    static int number;
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0)
        die("no pipe");
    mock->pid = fork();
    if (mock->pid < 0)
        die("no process");
    if (mock->pid == 0)
        become_mock(in, out, brokers, number);
    number++;
    (void)close(in[0]);
    (void)close(out[1]);
    mock->to = fdopen(in[1], "w");
    mock->from = fdopen(out[0], "r");
    if (!mock->to || !mock->from || !fgets(mock->servers, (int)sizeof mock->servers, mock->from))
        die("it did not say where it is");
    mock->servers[strcspn(mock->servers, "\n")] = 0;
}

void kafka_mock_end(kafka_mock *mock)
{
    (void)fclose(mock->to);
    (void)fclose(mock->from);
    (void)kill(mock->pid, SIGKILL);
    (void)waitpid(mock->pid, NULL, 0);
}

void kafka_mock_do(kafka_mock *mock, const char *format, ...)
{
    char answer[LINE_ROOM];
    va_list arguments;
    va_start(arguments, format);
    (void)vfprintf(mock->to, format, arguments);
    va_end(arguments);
    (void)fputc('\n', mock->to);
    if (fflush(mock->to) != 0 || !fgets(answer, (int)sizeof answer, mock->from))
        die("it does not answer");
    if (strcmp(answer, "ok\n") != 0)
        die(answer);
}

void kafka_mock_fresh(char url[MOCK_URL_ROOM], kafka_mock *mock, int partitions,
                      const char *parameters)
{
    static int number;
    char name[32];
    (void)snprintf(name, sizeof name, "orders-%d", ++number);
    kafka_mock_do(mock, "topic %s %d", name, partitions);
    (void)snprintf(url, MOCK_URL_ROOM,
                   "kafka://%s/%s?group=%s&connect_ms=20000&" MOCK_SESSION "%s%s", mock->servers,
                   name, name, *parameters ? "&" : "", parameters);
}

void kafka_mock_topic(char topic[MOCK_SERVERS_ROOM], const char *url)
{
    const char *slash = strchr(url + strlen("kafka://"), '/');
    (void)snprintf(topic, MOCK_SERVERS_ROOM, "%.*s", (int)strcspn(slash + 1, "?"), slash + 1);
}
