/* A worker that answers each line with the same one, which is the benchmark itself under another
 * argument, so that no interpreter is measured; and the bare loop: a thread for each of these
 * processes, which writes a line and reads one. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024 };

static const char answer[] = "{\"status\":\"done\"}\n";

int echo_main(void)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0)
        if (write(STDOUT_FILENO, answer, sizeof answer - 1) != (ssize_t)sizeof answer - 1)
            break;
    free(line);
    return 0;
}

static void become_worker(const char *path, int in, int out)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(in, STDIN_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    execl(path, path, ECHO_ARGUMENT, (char *)NULL);
    _exit(127);
}

static void start_one(echo_process *e, const char *path)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || (e->pid = fork()) < 0)
        die("cannot start a worker: %s", strerror(errno));
    if (e->pid == 0)
        become_worker(path, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    e->to = in[1];
    e->from = out[0];
}

void echo_start(echo_process all[RUN_PROCESSES])
{
    char path[512];
    program_path(path, "semel-bench");
    for (size_t i = 0; i < RUN_PROCESSES; i++)
        start_one(&all[i], path);
}

void echo_stop(echo_process all[RUN_PROCESSES])
{
    for (size_t i = 0; i < RUN_PROCESSES; i++) {
        close(all[i].to);
        close(all[i].from);
        while (waitpid(all[i].pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
}

/* As much as the program writes for such a message. */
static size_t write_line(char out[LINE_MAX_BYTES], const semel_message *m)
{
    return (size_t)snprintf(out, LINE_MAX_BYTES,
                            "{\"inbox\":\"bench\",\"id\":\"%.*s\",\"key\":\"%.*s\","
                            "\"idempotency_key\":\"%.*s\",\"type\":\"%s\",\"attempt\":1,"
                            "\"body\":%.*s}\n",
                            (int)m->id.len, (const char *)m->id.data, (int)m->id.len,
                            (const char *)m->id.data, (int)m->id.len, (const char *)m->id.data,
                            m->type, (int)m->body.len, (const char *)m->body.data);
}

static void ask(void *context, size_t worker, const semel_message *const messages[], size_t count)
{
    const echo_process *e = (echo_process *)context + worker;
    char line[LINE_MAX_BYTES];
    for (size_t i = 0; i < count; i++) {
        size_t len = write_line(line, messages[i]), got = 0;
        if (write(e->to, line, len) != (ssize_t)len)
            die("a worker does not read");
        do {
            ssize_t some = read(e->from, line + got, sizeof line - got);
            if (some <= 0)
                die("a worker does not answer");
            got += (size_t)some;
        } while (line[got - 1] != '\n');
    }
}

run_figure echo_turn(void *context, const message_set *set)
{
    double start = now_s();
    threads_run(RUN_PROCESSES, 10, set, ask, context);
    return (run_figure){(double)set->count / (now_s() - start), 0};
}
