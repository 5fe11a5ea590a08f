/* See killed.h. Each point has a fresh store, a process that is killed there, and one that goes
 * on: it publishes again what was not known to be published, as a producer would, and then
 * compares. The clock of the second one is a day later, so that no lease of the first is
 * waited for. */
#include "program/test/killed.h"

#include "program/cli.h"
#include "program/operate/confirm.h"
#include "program/test/expect.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POINTS_MAX = 200, DAY_MS = 86400000, TEXT_MAX = 4096 };

/* --- in the child ----------------------------------------------------------------------------- */

static semel_status run_world(const world_options *options, buffer *differences, semel_error *err)
{
    world *w = NULL;
    semel_status status = world_open(&w, options, err);
    if (!status)
        status = world_publish(w, err);
    if (!status)
        status = world_run(w, err);
    if (!status && !options->kill_at)
        status = expect_lasting(differences, w, options->test, err);
    world_close(w);
    return status;
}

/* What it found goes through the pipe; nothing of it is a success. */
static void child(const world_options *options, int to)
{
    buffer differences = {0};
    semel_error why = {0};
    buffer_text(&differences, "");
    interruption_end(); /* Ctrl-C ends it; the parent cleans up */
    if (run_world(options, &differences, &why))
        buffer_printf(&differences, "      error     %s\n", why.text);
    size_t len = differences.len < TEXT_MAX ? differences.len : TEXT_MAX;
    int failed = write(to, differences.data, len) != (ssize_t)len;
    _exit(failed ? CLI_FAILED : CLI_OK);
}

/* --- in the parent ---------------------------------------------------------------------------- */

static void read_all(int from, buffer *out)
{
    char some[512];
    for (ssize_t got; (got = read(from, some, sizeof some)) > 0 || (got < 0 && errno == EINTR);)
        if (got > 0)
            buffer_add(out, some, (size_t)got);
}

/* 1 if the child ended as it is meant to: by the kill, or by itself. */
static int ended_well(int status, const world_options *options)
{
    if (WIFSIGNALED(status))
        return options->kill_at && WTERMSIG(status) == SIGKILL;
    return WIFEXITED(status) && WEXITSTATUS(status) == CLI_OK;
}

static semel_status run_child(const world_options *options, buffer *said, semel_error *err)
{
    int ends[2], status = 0;
    if (pipe(ends) != 0)
        return semel_fail(err, SEMEL_ENOMEM, "no pipe: %s", strerror(errno));
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        child(options, ends[1]);
    (void)close(ends[1]);
    if (pid > 0)
        read_all(ends[0], said);
    (void)close(ends[0]);
    if (pid < 0)
        return semel_fail(err, SEMEL_ENOMEM, "no process: %s", strerror(errno));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (!ended_well(status, options))
        return semel_fail(err, SEMEL_ESTORE, "the test's process ended with status %d", status);
    return SEMEL_OK;
}

static semel_status kill_at(buffer *differences, const world_options *options, test_place *fresh,
                            uint64_t point, semel_error *err)
{
    buffer ignored = {0}, said = {0};
    world_options dies = *options, goes_on = *options;
    dies.kill_at = point;
    goes_on.later_ms = DAY_MS;
    semel_status status = place_fresh(fresh, err);
    if (!status)
        status = run_child(&dies, &ignored, err);
    if (!status)
        status = run_child(&goes_on, &said, err);
    if (!status && said.len) {
        buffer_printf(differences, "      when killed at point %llu:\n", (unsigned long long)point);
        buffer_add(differences, said.data, said.len);
    }
    buffer_free(&ignored);
    buffer_free(&said);
    return status;
}

semel_status killed_everywhere(buffer *differences, uint64_t *killed, const world_options *options,
                               test_place *fresh, uint64_t points, semel_error *err)
{
    uint64_t step = points / POINTS_MAX + 1;
    size_t before = differences->len;
    semel_status status = SEMEL_OK;
    *killed = 0;
    for (uint64_t point = 1;
         !status && point <= points && differences->len == before && !interrupted();
         point += step) {
        status = kill_at(differences, options, fresh, point, err);
        *killed += !status;
    }
    return status;
}
