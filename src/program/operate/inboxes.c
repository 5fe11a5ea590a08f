/* See inboxes.h. */
#include "program/operate/inboxes.h"

#include "program/cli.h"
#include "program/config/complete.h"
#include "program/gateway/proxy.h"
#include "program/gateway/proxy_inbox.h"

#include <string.h>

const char *inbox_state_word(semel_marker_state state)
{
    return state == SEMEL_MARKER_DONE      ? "done"
           : state == SEMEL_MARKER_CLAIMED ? "claimed"
           : state == SEMEL_MARKER_OPEN    ? "failed"
           : state == SEMEL_MARKER_DEAD    ? "dead"
                                           : "unknown";
}

/* --- definitions ------------------------------------------------------------------------------ */

/* "key=json:/order_id mode=transaction fingerprint=none": a key may have spaces in it. */
static const char *mode_part(const char *definition)
{
    static const char *const parts[] = {" mode=transaction fingerprint=",
                                        " mode=claim fingerprint="};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (const char *at = definition; (at = strstr(at, parts[i])); at++)
            found = at;
    return found;
}

const char *inbox_key_expression(tool *t, const known_name *inbox)
{
    const inbox_config *configured = t->all ? config_inbox(t->all, inbox->name) : NULL;
    const char *mode = mode_part(inbox->definition), *key = inbox->definition + strlen("key=");
    if (configured)
        return configured->options.key ? configured->options.key : "id";
    if (!mode || mode < key)
        return "-";
    return region_copy(&t->memory, key, (size_t)(mode - key));
}

const char *inbox_mode_word(tool *t, const known_name *inbox)
{
    const inbox_config *configured = t->all ? config_inbox(t->all, inbox->name) : NULL;
    const char *mode = mode_part(inbox->definition);
    if (configured)
        return configured->options.mode == SEMEL_CLAIM    ? "claim"
               : configured->options.mode == SEMEL_QUEUED ? "queued"
                                                          : "transaction";
    mode = mode ? mode + strlen(" mode=") : NULL;
    return mode ? region_copy(&t->memory, mode, strcspn(mode, " ")) : "-";
}

/* --- what went wrong -------------------------------------------------------------------------- */

int inbox_keeps_answers(const char *inbox)
{
    return proxy_inbox_is(inbox);
}

const char *inbox_unknown_outcome(region *to, const char *inbox, const semel_marker *marker)
{
    region memory = {0};
    proxy_answer answer;
    const char *text = NULL;
    if (marker->state == SEMEL_MARKER_DONE && marker->has_result && inbox_keeps_answers(inbox) &&
        proxy_answer_read(&answer, &memory, marker->result) && answer.kind == ANSWER_UNKNOWN)
        text = region_printf(to, "unknown outcome: %.*s", (int)answer.body.len,
                             answer.body.len ? (const char *)answer.body.data : "");
    region_free(&memory);
    return text;
}

const char *inbox_error_text(region *memory, const char *inbox, const semel_marker *marker)
{
    return *marker->error ? marker->error : inbox_unknown_outcome(memory, inbox, marker);
}

/* --- opening ---------------------------------------------------------------------------------- */

int inbox_open_named(semel_inbox **out, tool *t, const char *name)
{
    known_names all;
    semel_error why = {0};
    int status = names_read(&all, t, SEMEL_NAME_INBOX);
    const known_name *known = status ? NULL : names_find(&all, name);
    if (!status && !known)
        status = tool_no_such_name(t, "inbox", name);
    else if (!status && known->in_store)
        status = semel_inbox_open_known(out, t->store, name, &why) ? tool_failed(t, &why) : CLI_OK;
    names_free(&all);
    return status;
}

/* --- letters ---------------------------------------------------------------------------------- */

static semel_status keep_id(const semel_dead *letter, void *context, semel_error *err)
{
    (void)err;
    *(int64_t *)context = letter->id;
    return SEMEL_OK;
}

semel_status inbox_letter(int64_t *out, tool *t, const char *inbox, semel_bytes key,
                          semel_error *err)
{
    semel_dead_filter filter = {.size = sizeof filter,
                                .origin = SEMEL_DEAD_INBOX,
                                .name = inbox,
                                .key = key,
                                .limit = 1,
                                .brief = 1};
    *out = 0;
    return semel_dead_list(t->store, &filter, keep_id, out, err);
}
