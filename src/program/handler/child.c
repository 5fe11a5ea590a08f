/* See child.h: starting. The child tells by a pipe that closes on execve() whether and where it has
 * failed, so that a program that cannot be executed is never mistaken for one that exits with 127.
 * If semel dies between fork() and execve(), the child has not executed anything, or it is killed.
 * */
#include "program/handler/child.h"

#include "program/handler/groups.h"

#include <errno.h>
#include <fcntl.h>
#include <semel/semel.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LEAST_FD = 3,
    CLOEXEC_FLAG = 1 << 2,
    FDS_WITHOUT_RANGE = 65536,
    MS_PER_S = 1000,
    CPU_GRACE_S = 3
};

/* --- finding the program ---------------------------------------------------------------------- */

static int look_at(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return errno == EACCES ? CHILD_NOT_EXECUTABLE : CHILD_NOT_FOUND;
    return S_ISREG(about.st_mode) && access(path, X_OK) == 0 ? 0 : CHILD_NOT_EXECUTABLE;
}

static int find_in_path(const char **out, region *memory, const char *name, const char *path)
{
    int found = CHILD_NOT_FOUND;
    while (path && *path) {
        size_t len = strcspn(path, ":");
        if (*path == '/') {
            const char *file = region_printf(memory, "%.*s/%s", (int)len, path, name);
            int here = look_at(file);
            if (!here)
                *out = file;
            if (!here || here == CHILD_NOT_EXECUTABLE)
                found = here;
            if (!here)
                break;
        }
        path += len + (path[len] == ':');
    }
    return found;
}

int child_find(const char **out, region *memory, const char *name, const char *directory,
               const char *path)
{
    if (!*name)
        return CHILD_NOT_FOUND;
    if (!strchr(name, '/'))
        return find_in_path(out, memory, name, path);
    const char *file =
        *name == '/' || !directory ? name : region_printf(memory, "%s/%s", directory, name);
    *out = region_copy(memory, name, strlen(name));
    return look_at(file);
}

/* --- in the child, before execve(): async-signal-safe calls only -------------------------------
 * */

typedef enum failed_step {
    FAILED_PARENT = 1,
    FAILED_FILES,
    FAILED_LIMITS,
    FAILED_DIRECTORY,
    FAILED_EXECUTE
} failed_step;

typedef struct failure_report {
    int step;
    int error;
} failure_report;

typedef struct prepared {
    const child_spec *spec;
    int files[3];  /* what becomes 0, 1 and 2 of the child; -1: stays */
    int report[2]; /* a failure_report, or nothing */
    pid_t parent;
    sigset_t mask; /* of the parent */
} prepared;

static _Noreturn void give_up(const prepared *all, failed_step step)
{
    failure_report report = {(int)step, errno};
    ssize_t written;
    do
        written = write(all->report[1], &report, sizeof report);
    while (written < 0 && errno == EINTR);
    _exit(CHILD_NOT_FOUND);
}

static void reset_signals(const child_spec *spec)
{
    struct sigaction action = {0};
    action.sa_handler = SIG_DFL;
    for (int number = 1; number < NSIG; number++)
        if (number != SIGHUP || !spec->keeps_ignored_hangup)
            (void)sigaction(number, &action, NULL);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Ctrl-C is for the group that the child has just left, and may have come before: what waits is
 * dropped by ignoring it. reset_signals() follows. */
static void leave_terminal(void)
{
    static const int keys[] = {SIGINT, SIGQUIT, SIGTSTP};
    struct sigaction action = {0};
    action.sa_handler = SIG_IGN;
    (void)setpgid(0, 0);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        (void)sigaction(keys[i], &action, NULL);
}

/* All but 0, 1 and 2 are closed by execve(): the report must last until then. */
static int close_others(void)
{
    if (syscall(SYS_close_range, (unsigned)LEAST_FD, ~0u, (unsigned)CLOEXEC_FLAG) == 0)
        return 0;
    for (int fd = LEAST_FD; fd < FDS_WITHOUT_RANGE; fd++)
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 && errno != EBADF)
            return -1;
    return 0;
}

static int limit(int what, uint64_t most, uint64_t further)
{
    struct rlimit bounds;
    if (getrlimit((__rlimit_resource_t)what, &bounds) != 0)
        return -1;
    rlim_t hard = (rlim_t)(most + further);
    if (bounds.rlim_max == RLIM_INFINITY || hard < bounds.rlim_max)
        bounds.rlim_max = hard;
    bounds.rlim_cur = (rlim_t)most < bounds.rlim_max ? (rlim_t)most : bounds.rlim_max;
    return setrlimit((__rlimit_resource_t)what, &bounds);
}

/* A child that has used up its time gets SIGXCPU, and SIGKILL a little later. */
static int apply_limits(const limits_config *limits)
{
    uint64_t seconds = (limits->cpu_ms + MS_PER_S - 1) / MS_PER_S;
    if (limit(RLIMIT_CORE, 0, 0) != 0)
        return -1;
    if (limits->memory_bytes && limit(RLIMIT_AS, limits->memory_bytes, 0) != 0)
        return -1;
    if (limits->cpu_ms && limit(RLIMIT_CPU, seconds, CPU_GRACE_S) != 0)
        return -1;
    return limits->files ? limit(RLIMIT_NOFILE, limits->files, 0) : 0;
}

/* The parent may have ended before the prctl(): then no signal would ever come. */
static void follow_parent(const prepared *all)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != all->parent)
        give_up(all, FAILED_PARENT);
}

static _Noreturn void become(const prepared *all)
{
    const child_spec *spec = all->spec;
    if (!spec->shares_group)
        leave_terminal();
    follow_parent(all);
    for (int i = 0; i < LEAST_FD; i++)
        if (all->files[i] >= 0 && dup2(all->files[i], i) < 0)
            give_up(all, FAILED_FILES);
    if (close_others() != 0)
        give_up(all, FAILED_FILES);
    if (spec->directory && chdir(spec->directory) != 0)
        give_up(all, FAILED_DIRECTORY);
    reset_signals(spec);
    if (spec->limits && apply_limits(spec->limits) != 0)
        give_up(all, FAILED_LIMITS);
    (void)execve(spec->path, (char *const *)spec->argv, (char *const *)spec->env);
    give_up(all, FAILED_EXECUTE);
}

/* --- in the parent ---------------------------------------------------------------------------- */

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* Above 2, so that giving the child its 0, 1 and 2 overwrites none of them. */
static int raise_fd(int fd)
{
    if (fd < 0 || fd >= LEAST_FD)
        return fd;
    int raised = fcntl(fd, F_DUPFD_CLOEXEC, LEAST_FD);
    (void)close(fd);
    return raised;
}

static int open_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0) {
        ends[0] = ends[1] = -1;
        return -1;
    }
    ends[0] = raise_fd(ends[0]);
    ends[1] = raise_fd(ends[1]);
    return ends[0] < 0 || ends[1] < 0 ? -1 : 0;
}

/* *theirs is the child's end, *ours ours, which never blocks. */
static int open_stream(int *theirs, int *ours, child_stream kind, int child_reads)
{
    if (kind == CHILD_INHERIT)
        return 0;
    if (kind == CHILD_NULL) {
        *theirs = raise_fd(open("/dev/null", (child_reads ? O_RDONLY : O_WRONLY) | O_CLOEXEC));
        return *theirs < 0 ? -1 : 0;
    }
    int ends[2];
    int failed = open_pipe(ends);
    *theirs = ends[child_reads ? 0 : 1];
    *ours = ends[child_reads ? 1 : 0];
    return failed ? -1 : fcntl(*ours, F_SETFL, O_NONBLOCK);
}

static int open_streams(prepared *all, child *c)
{
    const child_spec *spec = all->spec;
    if (open_pipe(all->report) != 0)
        return -1;
    if (open_stream(&all->files[0], &c->in, spec->in, 1) != 0)
        return -1;
    if (open_stream(&all->files[1], &c->out, spec->out, 0) != 0)
        return -1;
    return open_stream(&all->files[2], &c->err, spec->err, 0);
}

/* No handler of ours may run in the child, so all signals wait until it has reset them. */
static pid_t fork_without_signals(prepared *all)
{
    sigset_t every;
    (void)sigfillset(&every);
    (void)pthread_sigmask(SIG_SETMASK, &every, &all->mask);
    pid_t pid = fork();
    if (pid == 0)
        become(all);
    int error = errno;
    (void)pthread_sigmask(SIG_SETMASK, &all->mask, NULL);
    errno = error;
    return pid;
}

static semel_status fail_with(semel_error *err, semel_status status, int native, const char *what,
                              int error)
{
    char text[128];
    (void)semel_fail(err, status, "%s: %s", what, strerror_r(error, text, sizeof text));
    if (err) {
        err->native = native;
        err->retryable = 1;
    }
    return status;
}

/* The name as it was configured: the path may have been found in PATH. */
static semel_status fail_to_execute(semel_error *err, const child_spec *spec,
                                    const failure_report *report)
{
    static const char *const steps[] = {
        [FAILED_PARENT] = "cannot start a process",
        [FAILED_FILES] = "cannot pass on the files",
        [FAILED_LIMITS] = "cannot set the limits",
        [FAILED_DIRECTORY] = "cannot enter the directory",
        [FAILED_EXECUTE] = NULL,
    };
    if (report->step != FAILED_EXECUTE)
        return fail_with(err, SEMEL_EUNAVAILABLE, report->error, steps[report->step],
                         report->error);
    char what[200];
    (void)snprintf(what, sizeof what, "%.150s cannot be executed", spec->argv[0]);
    int code = report->error == ENOENT ? CHILD_NOT_FOUND : CHILD_NOT_EXECUTABLE;
    return fail_with(err, SEMEL_EHANDLER, code, what, report->error);
}

/* Waits for execve(), which closes the pipe, or for the report of what has failed before. */
static int read_report(failure_report *out, int fd)
{
    ssize_t got;
    do
        got = read(fd, out, sizeof *out);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof *out;
}

static void close_prepared(prepared *all)
{
    for (int i = 0; i < LEAST_FD; i++)
        close_fd(&all->files[i]);
    close_fd(&all->report[0]);
    close_fd(&all->report[1]);
}

static semel_status start_prepared(child *c, prepared *all, semel_error *err)
{
    failure_report report;
    groups_begin();
    c->pid = fork_without_signals(all);
    int error = errno;
    if (c->has_group && c->pid > 0)
        (void)setpgid(c->pid, c->pid);
    groups_end(c->has_group ? c->pid : 0);
    if (c->pid < 0) {
        c->pid = 0;
        return fail_with(err, SEMEL_EUNAVAILABLE, error, "cannot start a process", error);
    }
    close_fd(&all->report[1]);
    if (read_report(&report, all->report[0])) {
        groups_remove(c->pid);
        (void)waitpid(c->pid, NULL, 0);
        c->pid = 0;
        return fail_to_execute(err, all->spec, &report);
    }
    c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0u);
    return SEMEL_OK;
}

semel_status child_start(child *out, const child_spec *spec, semel_error *err)
{
    prepared all = {.spec = spec, .files = {-1, -1, -1}, .report = {-1, -1}, .parent = getpid()};
    *out = (child){.pidfd = -1,
                   .in = -1,
                   .out = -1,
                   .err = -1,
                   .has_group = !spec->shares_group,
                   .output_max = spec->output_max,
                   .spares_descendants = spec->spares_descendants};
    semel_status status;
    if (open_streams(&all, out) != 0)
        status = fail_with(err, SEMEL_EUNAVAILABLE, errno, "cannot open a pipe", errno);
    else
        status = start_prepared(out, &all, err);
    close_prepared(&all);
    if (status) {
        close_fd(&out->in);
        close_fd(&out->out);
        close_fd(&out->err);
    }
    return status;
}
