/* semel dead export: letters as CloudEvents, one in a line, for `semel publish --cloudevents
 * --lines`. Changes nothing.
 *
 * A CloudEvent must have an id, a source and a type. A message that has none gets the letter's: so
 * it can be published again, and does not lose its body for want of a name. Source and type that it
 * did not have are taken away again by `publish` (support/unsaid.h).
 *
 * The body comes back as it was, byte for byte, because a fingerprint may be made of it. A reader
 * may write JSON in another way (without spaces, of two members with one name the last), so each
 * event is read back; if its body is another one by then, it is written in base64. */
#include "program/cli.h"
#include "program/operate/dead.h"
#include "program/support/binary.h"
#include "program/support/show.h"
#include "program/support/unsaid.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct exporting {
    dead_work *w;
    uint64_t letters;
    uint64_t failed;
    uint64_t headers; /* that a CloudEvent cannot have */
    buffer event;     /* of the letter at hand */
    size_t dropped;
} exporting;

static int is_extension(const semel_header *h)
{
    for (const char *c = h->name; *c; c++)
        if (!isalnum((unsigned char)*c))
            return 0;
    return *h->name != 0;
}

static int comes_back(const char *event, semel_bytes body)
{
    semel_message *back = NULL;
    semel_error why = {0};
    if (semel_message_read_cloudevent(&back, semel_str(event), &why))
        return 0;
    int same = back->body.len == body.len &&
               (!body.len || memcmp(back->body.data, body.data, body.len) == 0);
    semel_message_free(back);
    return same;
}

/* The event without a body, and before its last brace the body. */
static semel_status write_in_base64(buffer *out, const semel_message *m, semel_error *err)
{
    char *event = NULL;
    semel_message bare = *m;
    bare.body = (semel_bytes){0};
    semel_status status = semel_message_write_cloudevent(&event, &bare, err);
    if (status)
        return status;
    buffer_add(out, event, strlen(event) - 1);
    buffer_text(out, ",\"data_base64\":\"");
    binary_add_base64(out, m->body);
    buffer_text(out, "\"}");
    semel_text_free(event);
    return SEMEL_OK;
}

static semel_status write_message(buffer *out, const semel_message *m, semel_error *err)
{
    char *event = NULL;
    semel_status status = semel_message_write_cloudevent(&event, m, err);
    if (status)
        return status;
    if (comes_back(event, m->body))
        buffer_text(out, event);
    else
        status = write_in_base64(out, m, err);
    semel_text_free(event);
    return status;
}

static semel_status write_event(const semel_dead *dead, void *context, semel_error *err)
{
    exporting *e = context;
    char id[40];
    semel_header headers[SEMEL_HEADERS_MAX];
    if (!dead->message)
        return semel_fail(err, SEMEL_EINVAL, "it is damaged: %s", dead->error);
    semel_message m = *dead->message;
    (void)snprintf(id, sizeof id, "letter-%lld", (long long)dead->id);
    if (!m.id.len)
        m.id = semel_str(id);
    unsaid_add(&m, headers);
    if (!m.source || !*m.source)
        m.source = dead->name;
    if (!m.type || !*m.type)
        m.type = m.topic && *m.topic ? m.topic : "message";
    e->dropped = 0;
    for (size_t i = 0; i < m.header_count; i++)
        e->dropped += !is_extension(&m.headers[i]);
    e->event.len = 0;
    return write_message(&e->event, &m, err);
}

/* A letter that cannot be written hides no other. */
static int export_one(exporting *e, int64_t id)
{
    semel_error why = {0};
    semel_status status = dead_visit(e->w, id, write_event, e, &why);
    if (status == SEMEL_ENOTFOUND)
        return CLI_OK;
    if (status && why.retryable)
        return tool_failed(&e->w->tool, &why);
    if (status) {
        e->failed++;
        (void)tool_refuse(&e->w->tool, CLI_FAILED, "letter %lld is not exported: %s", (long long)id,
                          why.text);
        return CLI_OK;
    }
    (void)printf("%s\n", e->event.data);
    e->letters++;
    e->headers += e->dropped;
    return CLI_OK;
}

static void say_exported(const exporting *e)
{
    const tool *t = &e->w->tool;
    buffer text = {0}, failed = {0}, number = {0};
    dead_show_count(&text, e->letters);
    dead_show_count(&failed, e->failed);
    show_number(&number, e->headers);
    if (!e->letters && !e->failed && !e->w->gone)
        tool_say(t, "no matching dead letters");
    else
        tool_say(t, "%s", text.data);
    if (e->headers)
        tool_say(t, "%s header%s not written: names in CloudEvents have letters and digits only",
                 number.data, e->headers == 1 ? " was" : "s were");
    if (e->failed)
        tool_say(t, "%s could not be exported", failed.data);
    buffer_free(&text);
    buffer_free(&failed);
    buffer_free(&number);
}

static int tell_missing(dead_work *w)
{
    dead_summary set;
    int status = w->ids ? dead_summarize(&set, w) : CLI_OK;
    if (w->ids)
        region_free(&set.memory);
    return status;
}

int dead_export(dead_work *w)
{
    exporting e = {.w = w};
    dead_page p = {.step = DEAD_STEP, .limit = w->options->filter.limit};
    int status = tell_missing(w);
    while (!status && !ferror(stdout) && dead_next(w, &p, &status) > 0)
        for (size_t i = 0; !status && i < p.count; i++)
            status = export_one(&e, p.items[i].id);
    dead_page_free(&p);
    buffer_free(&e.event);
    if (status)
        return status;
    say_exported(&e);
    return e.failed ? CLI_FAILED : w->gone ? CLI_NOT_FOUND : CLI_OK;
}
