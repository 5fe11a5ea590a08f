/* fork() and waitpid() with deadlines. A child that hangs is killed and reported: a test never
 * hangs. */
#include "support/process/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUN_DEADLINE_MS = 60000, NAP_US = 200 };

int64_t process_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t process_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void process_nap(void)
{
    struct timespec rest = {0, NAP_US * 1000L};
    nanosleep(&rest, NULL);
}

int process_wait_asleep(pid_t thread, uint32_t deadline_ms)
{
    char path[64], line[256];
    int64_t deadline = process_now_ms() + deadline_ms;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    for (; process_now_ms() < deadline; process_nap()) {
        FILE *file = fopen(path, "r");
        const char *name_end = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
        if (file)
            (void)fclose(file);
        if (name_end && name_end[1] == ' ' && name_end[2] == 'S')
            return 1;
    }
    return 0;
}

static int is_child;

int process_is_child(void)
{
    return is_child;
}

pid_t process_start(process_body *body, void *context)
{
    pid_t parent = getpid();
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        abort();
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* no child outlives a test that died */
        is_child = 1;
        _exit(getppid() == parent ? body(context) : PROCESS_REQUIRED);
    }
    return pid;
}

static int reason_of(int status)
{
    return WIFSIGNALED(status) ? PROCESS_KILLED + WTERMSIG(status) : WEXITSTATUS(status);
}

int process_wait(pid_t pid, uint32_t deadline_ms)
{
    int64_t deadline = process_now_ms() + deadline_ms;
    int status;
    for (;;) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid)
            return reason_of(status);
        if (got < 0 && errno != EINTR)
            return PROCESS_LATE;
        if (process_now_ms() >= deadline)
            break;
        process_nap();
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return PROCESS_LATE;
}

int process_run(process_body *body, void *context)
{
    return process_wait(process_start(body, context), RUN_DEADLINE_MS);
}

int process_wait_stopped(pid_t pid, uint32_t deadline_ms)
{
    int64_t deadline = process_now_ms() + deadline_ms;
    siginfo_t info;
    while (process_now_ms() < deadline) {
        info.si_pid = 0;
        int flags =
            WEXITED | WSTOPPED | WNOHANG | WNOWAIT; /* its end is process_wait()'s to take */
        if (waitid(P_PID, (id_t)pid, &info, flags) == 0 && info.si_pid == pid)
            return info.si_code == CLD_STOPPED;
        process_nap();
    }
    return 0;
}

void process_give_up(const char *file, int line, const char *what)
{
    (void)fprintf(stderr, "%s:%d: in process %d: failed: %s\n", file, line, (int)getpid(), what);
    _exit(PROCESS_REQUIRED);
}

void *process_share(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        abort();
    }
    return memory;
}

void process_unshare(void *memory, size_t size)
{
    munmap(memory, size);
}
