/* One run: starts all processes, starts those again that were killed, lets the publisher go on as
 * fast as the last stage works, and waits until all that was published has arrived everywhere.
 *
 * This process has no store and no transport open, for it forks. It reads in the counters how far
 * the others are, and looks into the stores only when the killing is over. */
#include "brokers.h"
#include "support/base/sanitizer.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    READY_MS = 60000,
    STALL_MS = 150000,  /* without any progress: longer than a server is ever down */
    SETTLE_MS = 600000, /* with nothing but progress, from the last kill on */
    LEAVE_MS = 60000,
    AGAIN_MS = 5000,
    STOP_MS = 60000,       /* the same while servers may be down */
    TICK_NAPS = 50,        /* between two turns */
    SURPRISES_MAX = 5,     /* then it is no use to go on */
    LINE_MS = 250,         /* between two lines of progress on a terminal ... */
    QUIET_LINE_MS = 30000, /* ... and in a pipe */
    LOOK_MS = 500
};

/* The first python3 there is or Debian's own: the one that has the module becomes the script. */
static const char with_module[] =
    "module=$1; shift; for python in python3 /usr/bin/python3; do"
    " ! \"$python\" -c \"import $module\" 2>/dev/null || exec \"$python\" -B \"$@\"; done;"
    " echo \"no python3 has $module; dev/setup test installs it\" >&2; exit 1";

typedef struct supervisor {
    soak_run *run;
    soak_killer *killer;
    int published; /* the publisher has come to its end */
    int64_t moved_ms, line_ms, look_ms;
    int64_t deadline_ms; /* of settling; 0: not yet */
    uint64_t moved;      /* all counters together, when they last changed */
    int64_t effects[2], unsent, queued;
} supervisor;

/* --- scripts ---------------------------------------------------------------------------------- */

typedef struct script {
    const soak_run *run;
    const char *name;
    const char *output; /* a file in the run's directory */
} script;

/* NAME.py COUNTERS BROKER URL STORE OUTPUT SEED PROGRAM POISON */
static int become_script(void *context)
{
    const script *s = context;
    const soak_broker *broker = s->run->options->broker;
    char path[SCRATCH_PATH], counters[SCRATCH_PATH], output[SCRATCH_PATH], seed[SOAK_TEXT];
    soak_print(path, sizeof path, "%s/tests/soak/%s.py", SEMEL_SOURCE_DIR, s->name);
    soak_print(seed, sizeof seed, "%u", s->run->options->seed);
    scratch_file(counters, &s->run->directory, "counters");
    scratch_file(output, &s->run->directory, s->output);
    soak_leave();
    execl("/bin/sh", "sh", "-c", with_module, "sh", broker->client ? "sys" : broker->python_module,
          path, counters, broker->name, s->run->servers->broker.at.url,
          soak_store_name(s->run->store), output, seed,
          broker->client ? SEMEL_BINARY_DIR "/semel-soak" : "", broker->uncounted ? "0" : "1",
          (char *)NULL);
    process_give_up(__FILE__, __LINE__, "/bin/sh");
}

static pid_t start_script(const soak_run *run, const char *name, const char *output)
{
    script s = {run, name, output};
    return process_start(become_script, &s);
}

static void start_foreigner(soak_run *run)
{
    const soak_broker *broker = run->options->broker;
    int64_t deadline = process_now_ms() + READY_MS;
    char name[SOAK_TEXT];
    soak_print(name, sizeof name, "consume_%s", broker->name);
    run->foreigner = broker->client ? process_start(soak_client_consume, run)
                                    : start_script(run, name, "foreign");
    while (!atomic_load(&run->counters->ready)) {
        if (process_now_ms() > deadline || soak_interrupted)
            soak_die("the foreign consumer is not ready");
        process_nap();
    }
}

/* 1: it came to its end, as it should. */
static int publisher_is_over(supervisor *s)
{
    int status = 0;
    if (waitpid(s->run->publisher, &status, WNOHANG) != s->run->publisher)
        return 0;
    if (status != 0)
        soak_die("tests/soak/publish.py failed");
    return 1;
}

/* --- slots ------------------------------------------------------------------------------------ */

/* SIGTERM waits until the process can obey it. */
static void start_slot(soak_slot *slot)
{
    sigset_t term, before;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &before);
    slot->told = 0;
    slot->pid = process_start(soak_role_run, slot);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static void start_slots(soak_run *run)
{
    for (unsigned i = 0; i < SOAK_SLOTS; i++) {
        soak_slot *slot = &run->slots[i];
        *slot = (soak_slot){.run = run,
                            .role = (soak_role)(i / SOAK_SLOTS_EACH),
                            .number = i % SOAK_SLOTS_EACH + 1,
                            .index = i};
        start_slot(slot);
    }
}

/* As it was told, or by the poison; `end` as process_wait() has it. */
static void judge_end(soak_slot *slot, int end)
{
    soak_run *run = slot->run;
    int is_poisoned = end == PROCESS_KILLED + SIGKILL &&
                      atomic_load(&run->counters->poisoned[slot->index]) == slot->pid;
    int is_abort = run->options->broker->aborts && end == PROCESS_KILLED + SIGABRT;
    int is_told = (slot->told == SIGKILL && end == PROCESS_KILLED + SIGKILL) ||
                  (slot->told == SIGTERM && (end == PROCESS_OK || is_abort));
    run->poisoned += is_poisoned ? 1U : 0U;
    run->caught[is_poisoned] += (uint64_t)atomic_exchange(&run->counters->at_work[slot->index], 0);
    if (is_poisoned || is_told)
        return;
    run->surprises++;
    (void)fprintf(stderr, "\nsemel-soak: %s %u (process %d), which was %s, ended by %s %d\n",
                  soak_role_names[slot->role], slot->number, (int)slot->pid,
                  slot->told == SIGKILL ? "killed"
                  : slot->told          ? "told to stop"
                                        : "at work",
                  end >= PROCESS_KILLED ? "signal" : "status",
                  end >= PROCESS_KILLED ? end - PROCESS_KILLED : end);
}

/* The thread sanitizer forgets a signal now and then (test_threads_relay.c): there it is sent
 * again, after a while. */
static void tell_again(const soak_slot *slot)
{
    if (SANITIZER_SLOWDOWN > 1 && process_now_ms() - slot->told_ms > AGAIN_MS)
        kill(slot->pid, SIGTERM);
}

/* A process that is told to stop and does not is killed, and found to have ended otherwise. */
static void look_after(soak_slot *slot)
{
    int status = 0;
    if (!slot->pid)
        return;
    if (slot->told == SIGTERM)
        tell_again(slot);
    if (waitpid(slot->pid, &status, WNOHANG) == slot->pid) {
        judge_end(slot,
                  WIFSIGNALED(status) ? PROCESS_KILLED + WTERMSIG(status) : WEXITSTATUS(status));
        start_slot(slot);
    } else if (slot->told == SIGTERM && process_now_ms() - slot->told_ms > STOP_MS) {
        kill(slot->pid, SIGKILL);
    }
}

/* Its end is still there for process_wait() to take. */
static int has_ended(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

/* A process that is told to stop finishes what it works on, and ends. */
static void stop_slot(soak_slot *slot)
{
    while (!has_ended(slot->pid) && process_now_ms() - slot->told_ms < LEAVE_MS) {
        tell_again(slot);
        process_nap();
    }
    judge_end(slot, process_wait(slot->pid, LEAVE_MS));
    slot->pid = 0;
}

static void stop_slots(soak_run *run)
{
    for (unsigned i = 0; i < SOAK_SLOTS; i++) {
        soak_slot *slot = &run->slots[i];
        slot->told = slot->told ? slot->told : SIGTERM;
        slot->told_ms = process_now_ms();
        if (slot->pid)
            kill(slot->pid, SIGTERM);
    }
    for (unsigned i = 0; i < SOAK_SLOTS; i++)
        if (run->slots[i].pid)
            stop_slot(&run->slots[i]);
}

static void end_at_once(pid_t *pid)
{
    if (*pid > 0) {
        kill(*pid, SIGKILL);
        (void)process_wait(*pid, LEAVE_MS);
    }
    *pid = 0;
}

/* --- progress --------------------------------------------------------------------------------- */

static uint64_t all_counters(const soak_counters *counters)
{
    return atomic_load(&counters->published) + atomic_load(&counters->received) +
           atomic_load(&counters->handled[0]) + atomic_load(&counters->handled[1]) +
           atomic_load(&counters->delivered[0]) + atomic_load(&counters->delivered[1]);
}

static unsigned kills_so_far(const soak_run *run)
{
    unsigned all = 0;
    for (unsigned i = 0; i < SOAK_VICTIMS; i++)
        all += run->killed[i];
    return all;
}

static void describe(char *out, size_t room, const supervisor *s, const char *phase)
{
    const soak_counters *counters = s->run->counters;
    int64_t since_s = (process_now_ms() - s->run->started_ms) / 1000;
    const char *outages = soak_killer_outages(s->killer);
    soak_print(out, room,
               "%s %02lld:%02lld %s: published %llu, handled %llu, second %llu, foreign %llu,"
               " killed %u of %u%s%s",
               soak_store_name(s->run->store), (long long)(since_s / 60), (long long)(since_s % 60),
               phase, (unsigned long long)atomic_load(&counters->published),
               (unsigned long long)atomic_load(&counters->handled[0]),
               (unsigned long long)atomic_load(&counters->handled[1]),
               (unsigned long long)atomic_load(&counters->received), kills_so_far(s->run),
               s->run->kills, *outages ? ", " : "", outages);
}

/* On a terminal one line, which is cut where that ends and written again; in a pipe now and then a
 * new one. */
static void show(supervisor *s, const char *phase)
{
    char line[SOAK_URL];
    struct winsize size = {.ws_col = 0};
    int64_t now = process_now_ms();
    if (now < s->line_ms)
        return;
    describe(line, sizeof line, s, phase);
    if (isatty(STDOUT_FILENO)) {
        (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        printf("\r\033[K%.*s", size.ws_col > 1 ? size.ws_col - 1 : SOAK_URL, line);
        s->line_ms = now + LINE_MS;
    } else {
        puts(line);
        s->line_ms = now + QUIET_LINE_MS;
    }
    (void)fflush(stdout);
}

static void hide_line(void)
{
    if (isatty(STDOUT_FILENO))
        printf("\r\033[K");
    (void)fflush(stdout);
}

/* 0 if nothing has moved for too long, or too much has gone wrong. */
static int is_going_on(supervisor *s)
{
    uint64_t counters = all_counters(s->run->counters) + kills_so_far(s->run);
    int64_t now = process_now_ms();
    if (counters != s->moved) {
        s->moved = counters;
        s->moved_ms = now;
    }
    if (now - s->moved_ms > STALL_MS || s->run->surprises > SURPRISES_MAX ||
        (s->deadline_ms && now > s->deadline_ms))
        s->run->unfinished = 1;
    return !s->run->unfinished && !soak_interrupted;
}

/* --- the turns -------------------------------------------------------------------------------- */

/* How much of the run is over, by its last in the chain and by time. */
static double share_of(const soak_run *run)
{
    double share = (double)atomic_load(&run->counters->handled[1]) / (double)run->options->messages;
    double passed = (double)(process_now_ms() - run->started_ms);
    if (run->length_ms && passed / (double)run->length_ms < share)
        share = passed / (double)run->length_ms;
    return share;
}

static void steer_publisher(const soak_run *run)
{
    soak_counters *counters = run->counters;
    uint64_t allowed = atomic_load(&counters->handled[1]) + run->window;
    int in_time = process_now_ms() - run->started_ms < run->length_ms;
    if (!run->length_ms && allowed > run->options->messages)
        allowed = run->options->messages;
    if (allowed > atomic_load(&counters->allowed))
        atomic_store(&counters->allowed, allowed);
    if (!in_time && atomic_load(&counters->published) >= run->options->messages)
        atomic_store(&counters->ending, 1);
}

static void turn(supervisor *s, const char *phase)
{
    for (unsigned i = 0; i < SOAK_SLOTS; i++)
        look_after(&s->run->slots[i]);
    soak_killer_step(s->killer, share_of(s->run));
    show(s, phase);
    for (int i = 0; i < TICK_NAPS; i++)
        process_nap();
}

static void work(supervisor *s)
{
    while (is_going_on(s) && !(s->published && soak_killer_done(s->killer))) {
        steer_publisher(s->run);
        if (!s->published)
            s->published = publisher_is_over(s);
        turn(s, s->published ? "published all" : "publishing");
    }
    if (s->published)
        s->run->publisher = 0;
    s->run->unpublished = !s->published;
}

static void look(supervisor *s)
{
    soak_contents first = soak_topology_contents(s->run, 0);
    s->effects[0] = first.effects;
    s->unsent = first.unsent;
    s->effects[1] = soak_topology_contents(s->run, 1).effects;
}

/* Everything is where it belongs, and nothing is under way that could still be handled twice. */
static int has_settled(supervisor *s)
{
    int64_t published = (int64_t)atomic_load(&s->run->counters->published);
    if (process_now_ms() < s->look_ms)
        return 0;
    look(s);
    int complete = s->effects[0] >= published && s->effects[1] >= published && s->unsent == 0;
    if (complete)
        s->queued = soak_topology_queued(s->run);
    s->look_ms = process_now_ms() + LOOK_MS;
    return complete && s->queued == 0;
}

static void complain(supervisor *s)
{
    if (soak_killer_done(s->killer)) { /* else a server may be down */
        look(s);
        s->queued = soak_topology_queued(s->run);
    }
    (void)fprintf(
        stderr,
        "\nsemel-soak: it does not come to its end: of %llu messages %lld are handled, %lld by"
        " the second consumers; %lld are in the outbox, %lld in the queues\n",
        (unsigned long long)atomic_load(&s->run->counters->published), (long long)s->effects[0],
        (long long)s->effects[1], (long long)s->unsent, (long long)s->queued);
}

void soak_supervise(soak_run *run)
{
    supervisor s = {.run = run, .killer = soak_killer_open(run)};
    start_foreigner(run);
    run->started_ms = s.moved_ms = process_now_ms();
    start_slots(run);
    run->publisher = start_script(run, "publish", "published");
    work(&s);
    s.deadline_ms = process_now_ms() + SETTLE_MS;
    while (is_going_on(&s) && !has_settled(&s))
        turn(&s, "settling");
    run->took_ms = process_now_ms() - run->started_ms;
    hide_line();
    if (run->unfinished)
        complain(&s);
    if (!soak_interrupted)
        stop_slots(run);
    for (unsigned i = 0; i < SOAK_SLOTS; i++)
        end_at_once(&run->slots[i].pid);
    end_at_once(&run->publisher);
    end_at_once(&run->foreigner);
    soak_killer_close(s.killer);
}
