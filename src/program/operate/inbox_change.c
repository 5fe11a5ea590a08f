/* semel inbox forget and semel inbox purge: keys that are not remembered any more. */
#include "program/cli.h"
#include "program/operate/bulk.h"
#include "program/operate/inboxes.h"
#include "program/support/show.h"
#include "program/support/typed_key.h"
#include "program/support/units.h"

#include <string.h>

static void show_time(buffer *to, const inbox_work *w, int64_t ms)
{
    if (w->options.utc)
        show_moment_utc(to, ms);
    else
        show_moment(to, ms);
}

/* --- forget ----------------------------------------------------------------------------------- */

typedef struct found_key {
    int found;
    semel_marker_state state;
    int64_t last_ms;
} found_key;

static semel_status keep_found(const semel_marker *marker, void *context, semel_error *err)
{
    found_key *found = context;
    (void)err;
    *found = (found_key){1, marker->state, marker->last_ms};
    return SEMEL_OK;
}

static int find_key(found_key *out, inbox_work *w, semel_inbox *inbox, semel_bytes key,
                    const char *shown)
{
    semel_marker_filter filter = {
        .size = sizeof filter, .key = key, .key_is_stored = 1, .limit = 1};
    semel_error why = {0};
    *out = (found_key){0};
    if (inbox && semel_inbox_list(inbox, &filter, keep_found, out, &why))
        return tool_failed(&w->tool, &why);
    return out->found ? CLI_OK
                      : tool_refuse(&w->tool, CLI_NOT_FOUND,
                                    "key %s not found in %s; it was never handled, or has been "
                                    "forgotten",
                                    shown, w->rest.items[0]);
}

/* The letter would stay behind without its key. */
static int refuse_dead(inbox_work *w, semel_bytes key, const char *shown)
{
    int64_t letter = 0;
    semel_error why = {0};
    if (inbox_letter(&letter, &w->tool, w->rest.items[0], key, &why))
        return tool_failed(&w->tool, &why);
    if (!letter)
        return CLI_OK;
    (void)tool_refuse(&w->tool, CLI_CONFLICT,
                      "key %s is that of dead letter %lld; nothing was changed", shown,
                      (long long)letter);
    tool_say(&w->tool, "try: semel dead discard %lld --forget", (long long)letter);
    return CLI_CONFLICT;
}

static int confirm_forget(const inbox_work *w, const found_key *found, const char *shown)
{
    buffer question = {0}, action = {0};
    show_text(&question, w->rest.items[0], strlen(w->rest.items[0]), 0);
    buffer_printf(&question, " %s, %s ", shown, inbox_state_word(found->state));
    show_time(&question, w, found->last_ms);
    buffer_text(&question, ": if a copy arrives, the handler will run again. Forget this key?");
    buffer_printf(&action, "forgetting %s", shown);
    const confirmation about = {.question = question.data, .action = action.data, .count = 1};
    int status = confirm(&w->tool, &about);
    buffer_free(&question);
    buffer_free(&action);
    return status;
}

static int forget_now(inbox_work *w, semel_inbox *inbox, semel_bytes key, const char *shown)
{
    bulk b;
    semel_error why = {0};
    const char *name = w->rest.items[0];
    int status = bulk_begin(&b, &w->tool, 1, "inbox forget %s %s", name, shown);
    if (status)
        return status;
    semel_status done = semel_inbox_forget_key(inbox, key, &why);
    if (done == SEMEL_EREJECTED) /* it has died since it was looked at */
        status = refuse_dead(w, key, shown);
    if (done && !status)
        status = tool_failed(&w->tool, &why);
    b.done = !status;
    return bulk_end(&b, status, "forgotten",
                    region_printf(&w->tool.memory, "semel inbox forget %s %s", name, shown));
}

static int forget(inbox_work *w, semel_inbox *inbox, semel_bytes key, const char *shown)
{
    found_key found;
    int status = find_key(&found, w, inbox, key, shown);
    if (!status && found.state == SEMEL_MARKER_DEAD)
        status = refuse_dead(w, key, shown);
    if (!status && w->options.dry_run) {
        tool_say(&w->tool, "would forget %s in %s, which is %s; nothing was changed", shown,
                 w->rest.items[0], inbox_state_word(found.state));
        return CLI_OK;
    }
    if (!status)
        status = confirm_forget(w, &found, shown);
    return status ? status : forget_now(w, inbox, key, shown);
}

int inbox_forget_typed(inbox_work *w)
{
    semel_bytes key = {0};
    semel_inbox *inbox = NULL;
    buffer shown = {0};
    const char *wrong =
        typed_key_parts(&key, &w->tool.memory, w->rest.items + 1, w->rest.count - 1);
    if (wrong)
        return tool_usage(&w->tool, "the key is not one: %s", wrong);
    int status = inbox_open_named(&inbox, &w->tool, w->rest.items[0]);
    show_stored_key(&shown, key);
    if (!status)
        status = forget(w, inbox, key, shown.data);
    semel_inbox_close(inbox);
    buffer_free(&shown);
    return status;
}

int inbox_forget(int argc, char **argv)
{
    static inbox_work w;
    const argument_option options[] = {
        TOOL_OPTIONS(&w.options), TOOL_CHANGE_OPTIONS(&w.options), {0}};
    int status = arguments_read("inbox forget", argc, argv, options, &w.rest);
    if (!status && w.rest.count < 2)
        status = cli_usage("inbox forget", "it takes an inbox and a key");
    if (status)
        return status;
    status = tool_open(&w.tool, "inbox forget", &w.options);
    if (!status)
        status = inbox_forget_typed(&w);
    tool_close(&w.tool);
    return status;
}

/* --- purge ------------------------------------------------------------------------------------ */

enum { COUNT_PAGE = 5000, SAMPLE = 2 };

/* How many keys are that old. What is claimed or dead stays. */
typedef struct old_keys {
    int64_t before_ms;
    uint64_t count;
    uint32_t seen;
    buffer last;
    buffer sample; /* "20688, 20689" */
} old_keys;

static semel_status count_key(const semel_marker *marker, void *context, semel_error *err)
{
    old_keys *old = context;
    (void)err;
    old->seen++;
    old->last.len = 0;
    buffer_add(&old->last, marker->key.data, marker->key.len);
    if (marker->last_ms >= old->before_ms || marker->state == SEMEL_MARKER_CLAIMED ||
        marker->state == SEMEL_MARKER_DEAD)
        return SEMEL_OK;
    if (old->count++ < SAMPLE) {
        buffer_text(&old->sample, old->sample.len ? ", " : "");
        show_stored_key(&old->sample, marker->key);
    }
    return SEMEL_OK;
}

static int count_old(old_keys *old, inbox_work *w, semel_inbox *inbox)
{
    semel_marker_filter filter = {.size = sizeof filter, .limit = COUNT_PAGE};
    semel_error why = {0};
    do {
        old->seen = 0;
        if (inbox && semel_inbox_list(inbox, &filter, count_key, old, &why))
            return tool_failed(&w->tool, &why);
        filter.after = (semel_bytes){old->last.data, old->last.len};
    } while (old->seen == COUNT_PAGE);
    return CLI_OK;
}

static const char *count_text(region *memory, uint64_t count)
{
    buffer shown = {0};
    show_number(&shown, count);
    const char *text = region_printf(memory, "%s key%s", shown.data, count == 1 ? "" : "s");
    buffer_free(&shown);
    return text;
}

static const char *scope_text(inbox_work *w, const old_keys *old)
{
    buffer before = {0};
    if (!w->older_than_ms)
        return region_printf(&w->tool.memory, "all keys in %s, %s", w->rest.items[0],
                             count_text(&w->tool.memory, old->count));
    show_time(&before, w, old->before_ms);
    const char *text =
        region_printf(&w->tool.memory, "%s in %s last changed before %s",
                      count_text(&w->tool.memory, old->count), w->rest.items[0], before.data);
    buffer_free(&before);
    return text;
}

static int purge_steps(inbox_work *w, semel_inbox *inbox, const old_keys *old)
{
    bulk b;
    int more = 1;
    const char *name = w->rest.items[0];
    const units_text age = units_show_duration(w->older_than_ms);
    const char *again =
        region_printf(&w->tool.memory, "semel inbox purge %s --older-than %s", name, age.text);
    int status = bulk_begin(&b, &w->tool, old->count, "%s", again + strlen("semel "));
    while (!status && more && !bulk_is_stopped(&b)) {
        semel_error why = {0};
        size_t removed = 0;
        if (semel_inbox_purge_step(&removed, &more, inbox, w->older_than_ms, bulk_step(&b), &why))
            status = tool_failed(&w->tool, &why);
        else if (removed)
            status = bulk_did(&b, removed, "forgotten");
    }
    return bulk_end(&b, status, "forgotten", again);
}

static int confirm_purge(inbox_work *w, const old_keys *old)
{
    const char *scope = scope_text(w, old);
    const confirmation about = {.question =
                                    region_printf(&w->tool.memory, "permanently forget %s?", scope),
                                .action = region_printf(&w->tool.memory, "forgetting %s",
                                                        count_text(&w->tool.memory, old->count)),
                                .count = old->count,
                                .irreversible = 1};
    return confirm(&w->tool, &about);
}

static int purge(inbox_work *w, semel_inbox *inbox, old_keys *old)
{
    int status = count_old(old, w, inbox);
    if (status)
        return status;
    if (!old->count && !w->older_than_ms) {
        tool_say(&w->tool, "there are no keys in %s to forget", w->rest.items[0]);
        return CLI_OK;
    }
    if (!old->count) {
        tool_say(&w->tool, "no keys in %s are older than %s", w->rest.items[0],
                 units_show_duration(w->older_than_ms).text);
        return CLI_OK;
    }
    if (w->options.dry_run) {
        tool_say(&w->tool, "would forget %s: %s%s; nothing was changed", scope_text(w, old),
                 old->sample.data, old->count > SAMPLE ? ", ..." : "");
        return CLI_OK;
    }
    status = confirm_purge(w, old);
    return status ? status : purge_steps(w, inbox, old);
}

static int purge_named(inbox_work *w)
{
    semel_inbox *inbox = NULL;
    uint64_t now = (uint64_t)w->tool.now_ms;
    old_keys old = {.before_ms =
                        w->older_than_ms < now ? (int64_t)(now - w->older_than_ms) : INT64_MIN};
    if (!w->older_than_ms) /* what was done in this millisecond, too */
        old.before_ms = INT64_MAX;
    int status = inbox_open_named(&inbox, &w->tool, w->rest.items[0]);
    if (!status)
        status = purge(w, inbox, &old);
    semel_inbox_close(inbox);
    buffer_free(&old.last);
    buffer_free(&old.sample);
    return status;
}

int inbox_purge(int argc, char **argv)
{
    static inbox_work w = {.older_than_ms = UINT64_MAX};
    const argument_option options[] = {TOOL_OPTIONS(&w.options),
                                       TOOL_CHANGE_OPTIONS(&w.options),
                                       {"--older-than", 0, ARGUMENT_PERIOD, &w.older_than_ms},
                                       {0}};
    int status = arguments_read("inbox purge", argc, argv, options, &w.rest);
    if (!status && w.rest.count != 1)
        status = cli_usage("inbox purge", "it takes one inbox");
    if (!status && w.older_than_ms == UINT64_MAX)
        status = cli_usage("inbox purge", "it needs --older-than, as in --older-than 30d");
    if (status)
        return status;
    status = tool_open(&w.tool, "inbox purge", &w.options);
    if (!status)
        status = purge_named(&w);
    tool_close(&w.tool);
    return status;
}
