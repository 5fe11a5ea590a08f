/* semel dead retry: one more attempt at each letter of a set, by a process that runs its inbox, or
 * here. Letters of an outbox or a queue go back into it at once.
 *
 * The command only marks letters; whichever process takes one has its own transaction for it. So
 * the command can be killed at any moment and be run again: what was handled is gone, what is
 * marked is retried, and the rest is as it was. Ctrl-C takes the marks of this step back from
 * letters that no process has taken yet, but not those that another operator had made before. */
#include "program/cli.h"
#include "program/operate/dead_retrying.h"
#include "program/support/show.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WAIT_DEFAULT_MS = 30000,
    PAUSE_LEAST_MS = 20,
    PAUSE_MOST_MS = 200,
    AUDIT_EVERY_MS = 1000,
    NS_PER_MS = 1000000
};

/* --- counts ----------------------------------------------------------------------------------- */

static const char *const json_words[RETRIED_STATES] = {
    "asked", "processed", "duplicate", "put-back", "failed", "gone", "left"};

static void add_count(buffer *to, uint64_t count, const char *words)
{
    buffer_text(to, to->len ? ", " : "");
    show_number(to, count);
    buffer_printf(to, " %s", words);
}

static uint64_t count_ended(const retrying *r)
{
    uint64_t ended = 0;
    for (int i = RETRIED_PROCESSED; i < RETRIED_LEFT; i++)
        ended += r->counts[i];
    return ended;
}

/* For people, what matters is said even if it is none; the audit has what there was. */
static void show_counts(buffer *to, const retrying *r, int all)
{
    const uint64_t *c = r->counts;
    if (c[RETRIED_PROCESSED] || (all && !c[RETRIED_PUT_BACK]))
        add_count(to, c[RETRIED_PROCESSED], "processed");
    if (c[RETRIED_DUPLICATE])
        add_count(to, c[RETRIED_DUPLICATE], c[RETRIED_DUPLICATE] == 1 ? "duplicate" : "duplicates");
    if (c[RETRIED_PUT_BACK])
        add_count(to, c[RETRIED_PUT_BACK], "put back");
    if (c[RETRIED_FAILED] || all)
        add_count(to, c[RETRIED_FAILED], "failed again");
    if (c[RETRIED_GONE])
        add_count(to, c[RETRIED_GONE], "gone before");
    if (c[RETRIED_PENDING])
        add_count(to, c[RETRIED_PENDING], "marked");
    if (!to->len)
        buffer_text(to, "nothing");
}

static void count_step(retrying *r)
{
    for (size_t i = 0; i < r->count; i++)
        r->counts[r->items[i].state]++;
}

/* Letters that are only marked have no outcome yet. */
static void tell_host(const retrying *r)
{
    for (int i = RETRIED_PENDING; i < RETRIED_LEFT; i++)
        tool_count(&r->w->tool, json_words[i], r->counts[i]);
}

static int write_audit(retrying *r)
{
    buffer result = {0};
    tell_host(r);
    show_counts(&result, r, 0);
    r->audit.result = result.data;
    r->audit.count = count_ended(r) - r->counts[RETRIED_GONE] - r->counts[RETRIED_FAILED];
    int status = tool_audit(&r->w->tool, &r->audit);
    r->audit.result = "";
    r->audited_ns = steady_clock_ns();
    buffer_free(&result);
    return status;
}

/* Counts what has ended of the step at hand, too, until the caller puts `before` back. */
static void count_so_far(retrying *r, uint64_t before[RETRIED_STATES])
{
    memcpy(before, r->counts, sizeof r->counts);
    count_step(r);
    r->counts[RETRIED_PENDING] = before[RETRIED_PENDING];
}

/* A step is long if its handlers are slow: the entry of a command that is killed meanwhile has what
 * ended before, but for the last second or the handler at work. */
static int keep_audit_current(retrying *r)
{
    uint64_t before[RETRIED_STATES];
    if (steady_clock_ns() - r->audited_ns < (int64_t)AUDIT_EVERY_MS * NS_PER_MS)
        return CLI_OK;
    count_so_far(r, before);
    int status = write_audit(r);
    memcpy(r->counts, before, sizeof before);
    return status;
}

static int begin_audit(retrying *r)
{
    buffer what = {0};
    dead_show_command(&what, r->w);
    r->audit.what = region_copy(&r->memory, what.data, what.len);
    buffer_free(&what);
    r->audited_ns = steady_clock_ns();
    return tool_audit(&r->w->tool, &r->audit);
}

/* --- one letter ------------------------------------------------------------------------------- */

static void fail_letter(retrying *r, retried *one, const char *why)
{
    one->error = region_copy(&r->step, why, strlen(why));
    retrying_end(one, RETRIED_FAILED);
}

static int reads_several_queues(const config *all)
{
    size_t count = 0;
    for (size_t i = 0; all && i < all->queue_count; i++)
        count += all->queues[i].is_read != 0;
    return count > 1;
}

/* What no process could do anything with. */
static const char *why_not(const retrying *r, const dead_letter *letter)
{
    if (letter->damaged)
        return "the letter is damaged; see semel dead show";
    if (letter->origin != SEMEL_DEAD_INBOX)
        return NULL;
    if (strcmp(letter->name, "unusable") == 0)
        return "the message could not be kept: there is nothing to handle";
    if (strcmp(letter->name, "unrouted") == 0 && r->w->options->here)
        return "without a route it needs a running semel: leave --here out";
    if (strcmp(letter->name, "unrouted") == 0 && reads_several_queues(r->w->tool.all))
        return "it does not say which queue it came from: export it and publish it there";
    return NULL;
}

static void take_end(retrying *r, retried *one, retry_end end, const semel_error *why)
{
    switch (end) {
    case RETRY_END_PROCESSED:
        retrying_end(one, one->letter->origin == SEMEL_DEAD_INBOX ? RETRIED_PROCESSED
                                                                  : RETRIED_PUT_BACK);
        break;
    case RETRY_END_DUPLICATE:
        retrying_end(one, RETRIED_DUPLICATE);
        break;
    case RETRY_END_FAILED:
    case RETRY_END_UNNOTED:
        fail_letter(r, one, why->text);
        break;
    case RETRY_END_OTHERS:    /* another process has it; its outcome is waited for */
    case RETRY_END_POSTPONED: /* a copy is being handled; it stays asked for */
        break;
    }
}

static int run_here(retrying *r, retried *one)
{
    retry_end end = RETRY_END_OTHERS;
    semel_error why = {0};
    const retry_place bare = {.store = r->w->tool.store};
    retry_letter letter = {.id = one->letter->id, .origin = one->letter->origin};
    (void)snprintf(letter.name, sizeof letter.name, "%s", one->letter->name);
    if (retry_run(&end, r->pipeline ? &r->place : &bare, &letter, &why))
        return tool_failed(&r->w->tool, &why);
    take_end(r, one, end, &why);
    return CLI_OK;
}

static int ask_for(retrying *r, retried *one)
{
    semel_error why = {0};
    const char *refused = why_not(r, one->letter);
    one->asked_ns = steady_clock_ns();
    if (refused) {
        fail_letter(r, one, refused);
        return CLI_OK;
    }
    semel_status status = semel_dead_set_retry(r->w->tool.store, one->letter->id, SEMEL_RETRY_NONE,
                                               SEMEL_RETRY_ASKED, NULL, &why);
    if (status == SEMEL_ENOTFOUND)
        retrying_end(one, RETRIED_GONE);
    else if (status)
        return tool_failed(&r->w->tool, &why);
    else if (r->w->options->here || one->letter->origin != SEMEL_DEAD_INBOX)
        return run_here(r, one);
    return CLI_OK;
}

/* --- telling ---------------------------------------------------------------------------------- */

static const char *const people_words[RETRIED_STATES] = {
    "marked, and no outcome yet", "processed", "duplicate", "put back", "failed again",
    "was gone already",           "not begun"};

static void print_line(const retrying *r, const retried *one)
{
    buffer line = {0};
    buffer_printf(&line, "%lld ", (long long)one->letter->id);
    show_text(&line, one->letter->name, strlen(one->letter->name), 0);
    if (one->letter->key.len) {
        buffer_text(&line, " ");
        show_stored_key(&line, one->letter->key);
    }
    buffer_printf(&line, ": %s", people_words[one->state]);
    if (one->took_ns) {
        buffer_text(&line, ", ");
        show_duration(&line, one->took_ns);
    }
    if (one->error) {
        buffer_text(&line, ": ");
        show_text(&line, one->error, strlen(one->error), 0);
    }
    (void)printf("%s (audit %lld)\n", line.data, (long long)r->audit.id);
    buffer_free(&line);
}

static const table_column json_columns[] = {{NULL, "letter", 0, 0},  {NULL, "inbox", 0, 0},
                                            {NULL, "outbox", 0, 0},  {NULL, "queue", 0, 0},
                                            {NULL, "key", 0, 0},     {NULL, "outcome", 0, 0},
                                            {NULL, "took_ms", 0, 0}, {NULL, "error", 0, 0},
                                            {NULL, "audit", 0, 0},   {0}};

static void add_json(table *t, const retrying *r, const retried *one)
{
    table_number(t, one->letter->id);
    dead_add_place(t, one->letter->origin, one->letter->name);
    if (one->letter->key.len)
        table_key(t, one->letter->key);
    else
        table_text(t, NULL);
    table_text(t, json_words[one->state]);
    table_number(t, one->took_ns ? one->took_ns / NS_PER_MS : -1);
    table_text(t, one->error);
    table_number(t, r->audit.id);
    table_end_row(t);
}

/* A letter that was named has a line of its own; of others only JSON tells each. What is only
 * marked, because no process runs its inbox, is told at the end. */
static void tell_step(const retrying *r)
{
    table t = {.columns = json_columns, .json = 1};
    if (r->w->tool.host)
        return;
    for (size_t i = 0; i < r->count; i++)
        if (r->w->options->tool.json)
            add_json(&t, r, &r->items[i]);
        else if (r->w->ids && r->items[i].state != RETRIED_LEFT &&
                 (r->items[i].state != RETRIED_PENDING || r->gave_up))
            print_line(r, &r->items[i]);
    table_print(&t, stdout);
    (void)fflush(stdout);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void pause_for(int64_t ms)
{
    struct timespec time = {.tv_sec = (time_t)(ms / 1000),
                            .tv_nsec = (long)(ms % 1000) * NS_PER_MS};
    (void)nanosleep(&time, NULL);
}

static void show_progress(retrying *r)
{
    buffer text = {0};
    uint64_t before[RETRIED_STATES];
    count_so_far(r, before);
    r->counts[RETRIED_PENDING] = 0;
    tell_host(r);
    show_counts(&text, r, 1);
    progress_show(&r->progress, count_ended(r), text.data);
    memcpy(r->counts, before, sizeof before);
    buffer_free(&text);
}

/* What another copy kept from being handled here is tried again, unless another process has taken
 * it meanwhile. */
static int look_again(retrying *r, size_t *left)
{
    int status = CLI_OK;
    for (size_t i = 0; r->pipeline && !status && i < r->count && !tool_is_stopped(&r->w->tool); i++)
        if (r->items[i].state == RETRIED_PENDING)
            status = run_here(r, &r->items[i]);
    return status ? status : retrying_look(r, left);
}

/* Until all have ended, or nothing has for as long as --wait says. */
static int wait_for_step(retrying *r)
{
    int64_t wait_ms = r->w->options->wait_ms > INT32_MAX ? INT32_MAX
                      : r->w->options->wait_ms           ? (int64_t)r->w->options->wait_ms
                                                         : WAIT_DEFAULT_MS;
    int64_t last_ns = steady_clock_ns(), pause_ms = PAUSE_LEAST_MS;
    size_t left = r->count, before = left;
    int status = retrying_look(r, &left);
    while (!status && left && !tool_is_stopped(&r->w->tool)) {
        show_progress(r);
        if (left < before)
            last_ns = steady_clock_ns();
        before = left;
        if (steady_clock_ns() - last_ns > wait_ms * NS_PER_MS) {
            r->gave_up = 1;
            return CLI_OK;
        }
        pause_for(pause_ms);
        pause_ms = pause_ms * 2 < PAUSE_MOST_MS ? pause_ms * 2 : PAUSE_MOST_MS;
        status = look_again(r, &left);
        if (!status)
            status = keep_audit_current(r);
    }
    return status;
}

/* 1 if the letter is as it was before this command: it was not marked yet, or its mark could be
 * taken back because no process has taken it. A letter that was marked when it was listed stays
 * so. */
static int is_taken_back(const retrying *r, const retried *one)
{
    return !one->asked_ns ||
           (one->letter->retry != SEMEL_RETRY_ASKED &&
            !semel_dead_set_retry(r->w->tool.store, one->letter->id, SEMEL_RETRY_ASKED,
                                  SEMEL_RETRY_NONE, NULL, NULL));
}

/* What a process has taken is waited for no longer. */
static void take_back(retrying *r)
{
    for (size_t i = 0; i < r->count; i++) {
        retried *one = &r->items[i];
        if (one->state == RETRIED_PENDING && is_taken_back(r, one))
            one->state = RETRIED_LEFT;
    }
}

/* --- steps ------------------------------------------------------------------------------------ */

static int step_has_process(const retrying *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->items[i].state == RETRIED_PENDING && retrying_is_alive(r, r->items[i].letter->name))
            return 1;
    return 0;
}

static int ask_step(retrying *r, const dead_page *p)
{
    int64_t now = 0;
    semel_error why = {0};
    int status =
        semel_store_now(&now, r->w->tool.store, &why) ? tool_failed(&r->w->tool, &why) : CLI_OK;
    r->count = p->count;
    for (size_t i = 0; i < p->count; i++)
        r->items[i] = (retried){.letter = &p->items[i], .asked_ms = now};
    for (size_t i = 0; !status && i < p->count && !tool_is_stopped(&r->w->tool); i++) {
        status = ask_for(r, &r->items[i]);
        if (r->w->options->here)
            show_progress(r);
        if (!status)
            status = keep_audit_current(r);
    }
    return status;
}

static int run_step(retrying *r, const dead_page *p)
{
    size_t left = 0;
    int status = ask_step(r, p);
    if (!status && !r->gave_up && (r->w->options->here || step_has_process(r)))
        status = wait_for_step(r);
    if (tool_is_stopped(&r->w->tool)) {
        take_back(r);
        (void)retrying_look(r, &left);
    }
    count_step(r);
    int audited = write_audit(r);
    progress_end(&r->progress);
    tell_step(r);
    region_free(&r->step);
    return status ? status : audited;
}

static int run_steps(retrying *r)
{
    int status = CLI_OK;
    dead_page p = {
        .step = DEAD_STEP, .last = r->set->last_id, .limit = r->w->options->filter.limit};
    while (!status && !tool_is_stopped(&r->w->tool) && dead_next(r->w, &p, &status) > 0)
        status = run_step(r, &p);
    dead_page_free(&p);
    return status;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void say_marked(const retrying *r)
{
    buffer names = {0}, count = {0};
    int one = r->counts[RETRIED_PENDING] == 1;
    dead_show_count(&count, r->counts[RETRIED_PENDING]);
    for (size_t i = 0; i < r->set->name_count; i++)
        buffer_printf(&names, "%s%s", i ? ", " : "", r->set->names[i]);
    if (r->gave_up)
        tool_say(&r->w->tool, "%s without an outcome; %s marked, and a running semel retries %s",
                 count.data, one ? "it is" : "they are", one ? "it" : "them");
    else
        tool_say(&r->w->tool,
                 "no process is running %s; %s %s marked, and retried when semel run starts; to "
                 "retry now: --here",
                 names.data, count.data, one ? "is" : "are");
    buffer_free(&names);
    buffer_free(&count);
}

static void say_done(const retrying *r)
{
    uint64_t ended = count_ended(r);
    buffer text = {0}, counts = {0};
    show_number(&text, ended);
    buffer_text(&text, " of ");
    show_number(&text, r->set->count);
    show_counts(&counts, r, 1);
    buffer_printf(&text, ": %s, ", counts.data);
    show_duration(&text, steady_clock_ns() - r->begun_ns);
    if (ended && !r->w->ids)
        tool_say(&r->w->tool, "%s (audit %lld)", text.data, (long long)r->audit.id);
    buffer_free(&text);
    buffer_free(&counts);
}

static int say_stopped(const retrying *r)
{
    buffer text = {0}, rest = {0}, counts = {0};
    show_number(&text, count_ended(r));
    buffer_text(&text, " of ");
    show_number(&text, r->set->count);
    show_counts(&counts, r, 1);
    dead_show_rest(&rest, r->w, r->set->last_id);
    tool_say(&r->w->tool, "%s: %s", text.data, counts.data);
    tool_say(&r->w->tool, "stopped; completed retries are kept (audit %lld). To continue: %s",
             (long long)r->audit.id, rest.data);
    buffer_free(&text);
    buffer_free(&rest);
    buffer_free(&counts);
    return r->w->tool.host ? CLI_OK : 128 + interrupted();
}

static int end_retry(const retrying *r)
{
    if (tool_is_stopped(&r->w->tool))
        return say_stopped(r);
    say_done(r);
    if (r->counts[RETRIED_PENDING])
        say_marked(r);
    return r->counts[RETRIED_FAILED] ? CLI_FAILED : r->gave_up ? CLI_TEMPORARY : CLI_OK;
}

static void close_retry(retrying *r)
{
    retrying_close_inboxes(r);
    retrying_close_here(r);
    free(r->inboxes);
    region_free(&r->memory);
    free(r);
}

int dead_retry_set(dead_work *w, const dead_summary *set)
{
    retrying *r = must_alloc(sizeof *r);
    r->w = w;
    r->set = set;
    r->begun_ns = steady_clock_ns();
    int status = w->options->here ? retrying_open_here(r) : retrying_look_for_processes(r);
    if (!status)
        status = begin_audit(r);
    tool_begin_work(&w->tool);
    progress_begin(&r->progress, &w->tool, set->count);
    if (!status)
        status = run_steps(r);
    progress_end(&r->progress);
    if (!status)
        status = end_retry(r);
    tool_end_work(&w->tool);
    close_retry(r);
    return status;
}

/* --- the command ------------------------------------------------------------------------------ */

/* A letter that is named exactly is retried without a question. */
static int ask(dead_work *w, const dead_summary *set)
{
    buffer text = {0}, action = {0};
    if (w->ids || w->options->tool.yes)
        return CLI_OK;
    dead_show_set(&text, w, set, 1);
    buffer_text(&action, "retrying ");
    dead_show_count(&action, set->count);
    if (set->cause)
        tool_say(&w->tool, "%s: %s", text.data, set->text);
    else
        tool_say(&w->tool, "%s", text.data);
    int status =
        confirm(&w->tool, &(confirmation){.question = set->count == 1 ? "retry it?" : "retry them?",
                                          .action = action.data,
                                          .count = set->count});
    buffer_free(&text);
    buffer_free(&action);
    return status;
}

int dead_retry(dead_work *w)
{
    dead_summary set;
    int status = dead_summarize(&set, w);
    if (!status && !set.count && !w->gone)
        tool_say(&w->tool, "no matching dead letters");
    if (!status && set.count && w->options->tool.dry_run) {
        dead_say_dry_run(w, &set, "retry");
    } else if (!status && set.count) {
        status = ask(w, &set);
        if (!status)
            status = dead_retry_set(w, &set);
    }
    region_free(&set.memory);
    return status ? status : w->gone ? CLI_NOT_FOUND : CLI_OK;
}
