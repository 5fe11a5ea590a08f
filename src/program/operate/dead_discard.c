/* semel dead discard: letters that are no longer wanted. Each is removed in a transaction of its
 * own, in which its key stays dead or is forgotten; what was not reached when the command ends is
 * still there. The entry of the audit is written before the first one and after each step, so that
 * it says at most one step too little of a command that was killed. */
#include "program/cli.h"
#include "program/operate/confirm.h"
#include "program/operate/dead.h"
#include "program/support/show.h"

#include <string.h>

typedef struct discarding {
    dead_work *w;
    const dead_summary *set;
    semel_audit audit;
    progress progress;
    uint64_t discarded, gone;
} discarding;

static int write_audit(discarding *d)
{
    buffer result = {0};
    tool_count(&d->w->tool, "discarded", d->discarded);
    tool_count(&d->w->tool, "gone", d->gone);
    show_number(&result, d->discarded);
    buffer_text(&result, " discarded");
    d->audit.result = result.data;
    d->audit.count = d->discarded;
    int status = tool_audit(&d->w->tool, &d->audit);
    buffer_free(&result);
    return status;
}

static int begin_audit(discarding *d, buffer *what)
{
    dead_show_command(what, d->w);
    d->audit = (semel_audit){
        .size = sizeof d->audit, .who = tool_actor(&d->w->tool), .what = what->data, .result = ""};
    return tool_audit(&d->w->tool, &d->audit);
}

static int discard_page(discarding *d, const dead_page *p)
{
    semel_discard how = d->w->options->forget ? SEMEL_DISCARD_FORGET_KEY : SEMEL_DISCARD_KEEP_DEAD;
    for (size_t i = 0; i < p->count && !tool_is_stopped(&d->w->tool); i++) {
        semel_error why = {0};
        semel_status status = semel_dead_discard(d->w->tool.store, p->items[i].id, how, &why);
        if (status && status != SEMEL_ENOTFOUND)
            return tool_failed(&d->w->tool, &why);
        d->discarded += !status;
        d->gone += status == SEMEL_ENOTFOUND; /* another operator was faster */
        progress_show(&d->progress, d->discarded, "discarded");
    }
    return CLI_OK;
}

static void say_done(const discarding *d)
{
    buffer text = {0};
    show_number(&text, d->discarded);
    buffer_text(&text, " of ");
    show_number(&text, d->set->count);
    buffer_text(&text, " discarded");
    if (d->gone) {
        buffer_text(&text, ", ");
        show_number(&text, d->gone);
        buffer_text(&text, " gone before");
    }
    tool_say(&d->w->tool, "%s (audit %lld)", text.data, (long long)d->audit.id);
    buffer_free(&text);
}

static int say_stopped(const discarding *d)
{
    buffer rest = {0};
    say_done(d);
    dead_show_rest(&rest, d->w, d->set->last_id);
    tool_say(&d->w->tool, "stopped. To continue: %s", rest.data);
    buffer_free(&rest);
    return d->w->tool.host ? CLI_OK : 128 + interrupted();
}

int dead_discard_set(dead_work *w, const dead_summary *set)
{
    discarding d = {.w = w, .set = set};
    dead_page p = {.step = DEAD_STEP, .last = set->last_id, .limit = w->options->filter.limit};
    buffer what = {0};
    int status = begin_audit(&d, &what);
    tool_begin_work(&w->tool);
    progress_begin(&d.progress, &w->tool, set->count);
    while (!status && !tool_is_stopped(&w->tool) && dead_next(w, &p, &status) > 0) {
        int audited;
        status = discard_page(&d, &p);
        audited = write_audit(&d);
        status = status ? status : audited;
    }
    progress_end(&d.progress);
    if (!status && tool_is_stopped(&w->tool))
        status = say_stopped(&d);
    else if (!status)
        say_done(&d);
    tool_end_work(&w->tool);
    dead_page_free(&p);
    buffer_free(&what);
    return status;
}

static int ask(dead_work *w, const dead_summary *set)
{
    buffer question = {0}, action = {0};
    buffer_text(&question, "permanently discard ");
    dead_show_set(&question, w, set, 0);
    buffer_text(&question,
                w->options->forget ? " and forget their keys, so that later copies run?" : "?");
    buffer_text(&action, "discarding ");
    dead_show_count(&action, set->count);
    int status = confirm(&w->tool, &(confirmation){.question = question.data,
                                                   .action = action.data,
                                                   .count = set->count,
                                                   .irreversible = 1});
    buffer_free(&question);
    buffer_free(&action);
    return status;
}

int dead_discard(dead_work *w)
{
    dead_summary set;
    int status = dead_summarize(&set, w);
    if (!status && !set.count && !w->gone)
        tool_say(&w->tool, "no matching dead letters");
    if (!status && set.count && w->options->tool.dry_run) {
        dead_say_dry_run(w, &set, "discard");
    } else if (!status && set.count) {
        status = ask(w, &set);
        if (!status)
            status = dead_discard_set(w, &set);
    }
    region_free(&set.memory);
    return status ? status : w->gone ? CLI_NOT_FOUND : CLI_OK;
}
