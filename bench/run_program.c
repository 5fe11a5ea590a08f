/* The program, as a user starts it: a process with a configuration, which says in JSON that it is
 * ready, since its stderr is a pipe. It ends with the benchmark, however that ends. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 60, SAID_MAX = 4000 };

const char *program_path(char out[512], const char *name)
{
    ssize_t len = readlink("/proc/self/exe", out, 400);
    if (len < 0 || len >= 400 || strlen(name) > 100)
        die("cannot find %s", name);
    out[len] = 0;
    (void)strcpy(strrchr(out, '/') + 1, name);
    if (access(out, X_OK) != 0)
        die("there is no %s", out);
    return out;
}

void program_configure(program *p, const char *name, const char *format, ...)
{
    va_list arguments;
    FILE *file = fopen(scratch_path(p->config, name), "we");
    if (!file)
        die("cannot write %s", p->config);
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fclose(file);
}

/* Between fork and exec there is nothing that a process with threads may not do. */
static void become_program(const char *path, const char *const arguments[], int said)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(said, STDERR_FILENO);
    (void)execv(path, (char *const *)arguments);
    _exit(127);
}

static _Noreturn void died(const program *p, const char *said)
{
    die("%s did not go on:\n%s", p->arguments ? "the library" : p->config, said);
}

static void wait_until_ready(program *p)
{
    char said[SAID_MAX + 1] = "";
    size_t len = 0;
    struct pollfd readable = {.fd = p->said, .events = POLLIN};
    while (!strstr(said, "\"event\":\"ready\"")) {
        ssize_t got = poll(&readable, 1, PATIENCE_S * 1000) == 1
                          ? read(p->said, said + len, SAID_MAX - len)
                          : 0;
        if (got < 0 && errno == EINTR)
            stop_if_asked();
        else if (got <= 0)
            died(p, said);
        else
            said[len += (size_t)got] = 0;
    }
}

void program_start(program *p)
{
    int ends[2];
    char path[512];
    const char *const run[] = {"semel", "run", "-c", p->config, NULL};
    const char *const *arguments = p->arguments ? p->arguments : run;
    program_path(path, arguments[0]);
    if (pipe2(ends, O_CLOEXEC) != 0)
        die("cannot make a pipe: %s", strerror(errno));
    double start = now_s();
    p->pid = fork();
    if (p->pid < 0)
        die("cannot start %s: %s", path, strerror(errno));
    if (p->pid == 0)
        become_program(path, arguments, ends[1]);
    close(ends[1]);
    p->said = ends[0];
    p->resident_mib = 0;
    wait_until_ready(p);
    p->ready_ms = (now_s() - start) * 1e3;
}

static _Noreturn void show_last_words(const program *p)
{
    char said[SAID_MAX + 1];
    ssize_t len = read(p->said, said, SAID_MAX);
    said[len > 0 ? len : 0] = 0;
    died(p, said);
}

void program_watch(program *p)
{
    char path[64], line[200];
    double kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)p->pid);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtod(line + 6, NULL);
    if (status)
        fclose(status);
    if (kib <= 0) /* a process that has ended has none */
        show_last_words(p);
    if (kib / 1024 > p->resident_mib)
        p->resident_mib = kib / 1024;
}

void program_stop(program *p)
{
    int status = 0;
    kill(p->pid, SIGTERM);
    while (waitpid(p->pid, &status, 0) < 0)
        if (errno != EINTR)
            die("a process cannot be waited for");
    if (status != 0)
        show_last_words(p);
    close(p->said);
}

double program_cpu_s(const program *p)
{
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(p->pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        show_last_words(p);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

run_figure program_turn(void *context, const message_set *set)
{
    program_side *side = context;
    stage_fill(&side->stage, set);
    program_start(&side->program);
    run_figure figure = stage_measure(&side->stage, set->count, &side->program);
    program_stop(&side->program);
    return figure;
}
