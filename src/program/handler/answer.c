/* See answer.h: reading. The text is checked as a whole first; its members are then pieces of it,
 * so that a result and a body are stored exactly as the handler wrote them. */
#include "program/handler/answer.h"

#include "program/support/binary.h"
#include "program/support/json_scan.h"
#include "program/support/show.h"
#include "program/support/strict_json.h"

#include <string.h>
#include <strings.h>

typedef struct reader {
    answer *out;
    semel_error *err;
} reader;

/* One member of an object: its name, and what reads its value into a target. */
typedef struct member {
    const char *name;
    semel_status (*read)(reader *r, void *target, semel_bytes value, const char *name);
} member;

/* --- objects by table ------------------------------------------------------------------------- */

static semel_status is_wrong(reader *r, const char *name, const char *what)
{
    return semel_fail(r->err, SEMEL_EHANDLER, "the answer's \"%s\" %s", name, what);
}

static const member *find_member(const member members[], const char *name, size_t len)
{
    for (; name && members->name; members++)
        if (strlen(members->name) == len && memcmp(members->name, name, len) == 0)
            return members;
    return NULL;
}

static semel_status unknown_member(reader *r, const char *name, size_t len)
{
    buffer shown = {0};
    show_text(&shown, name ? name : "", len, 60);
    semel_status status =
        semel_fail(r->err, SEMEL_EHANDLER, "the answer has an unknown member \"%s\"", shown.data);
    buffer_free(&shown);
    return status;
}

static semel_status read_object(reader *r, void *target, semel_bytes object, const member members[])
{
    uint32_t seen = 0;
    scan_member one;
    for (const char *at = NULL; scan_next(&one, &at, object);) {
        size_t len = 0;
        const char *name = scan_text(&len, &r->out->memory, one.name);
        const member *known = find_member(members, name, len);
        if (!known)
            return unknown_member(r, name, len);
        uint32_t bit = UINT32_C(1) << (known - members);
        if (seen & bit)
            return is_wrong(r, known->name, "is there twice");
        seen |= bit;
        semel_status status =
            scan_is_null(one.value) ? SEMEL_OK : known->read(r, target, one.value, known->name);
        if (status)
            return status;
    }
    return SEMEL_OK;
}

/* A text without NUL, which all fields but bodies and header values have to be. */
static semel_status read_text(const char **out, reader *r, semel_bytes value, const char *name)
{
    size_t len = 0;
    const char *text = scan_text(&len, &r->out->memory, value);
    if (!text || strlen(text) != len)
        return is_wrong(r, name, "is not a text");
    *out = text;
    return SEMEL_OK;
}

/* --- a message to send ------------------------------------------------------------------------ */

static semel_status send_to(reader *r, void *target, semel_bytes value, const char *name)
{
    return read_text(&((answer_send *)target)->to, r, value, name);
}

/* The fields of a message that are texts, by their names. */
static semel_status send_field(reader *r, void *target, semel_bytes value, const char *name)
{
    semel_message *m = &((answer_send *)target)->message;
    const char *text = NULL;
    semel_status status = read_text(&text, r, value, name);
    if (status)
        return status;
    if (strcmp(name, "type") == 0)
        m->type = text;
    else if (strcmp(name, "topic") == 0)
        m->topic = text;
    else if (strcmp(name, "group") == 0)
        m->group = text;
    else if (strcmp(name, "source") == 0)
        m->source = text;
    else if (strcmp(name, "content_type") == 0)
        m->content_type = text;
    else if (strcmp(name, "id") == 0)
        m->id = semel_str(text);
    else
        m->correlation_id = semel_str(text);
    return SEMEL_OK;
}

static semel_status send_headers(reader *r, void *target, semel_bytes value, const char *name)
{
    semel_message *m = &((answer_send *)target)->message;
    if (*(const char *)value.data != '{')
        return is_wrong(r, name, "is not an object");
    semel_header *headers = region_alloc(&r->out->memory, SEMEL_HEADERS_MAX * sizeof *headers);
    scan_member one;
    m->headers = headers;
    for (const char *at = NULL; scan_next(&one, &at, value); m->header_count++) {
        if (m->header_count == SEMEL_HEADERS_MAX)
            return is_wrong(r, name, "has too many members");
        semel_header *header = &headers[m->header_count];
        semel_status status = read_text(&header->name, r, one.name, name);
        if (status)
            return status;
        size_t len = 0;
        const char *text = scan_text(&len, &r->out->memory, one.value);
        if (!text)
            return is_wrong(r, name, "has a value that is not a text");
        header->value = (semel_bytes){text, len};
    }
    return SEMEL_OK;
}

static semel_status one_body(reader *r, const semel_message *m)
{
    return m->body.data ? semel_fail(r->err, SEMEL_EHANDLER,
                                     "the answer has two bodies in one "
                                     "message to send")
                        : SEMEL_OK;
}

static semel_status send_body(reader *r, void *target, semel_bytes value, const char *name)
{
    semel_message *m = &((answer_send *)target)->message;
    (void)name;
    semel_status status = one_body(r, m);
    m->body = value;
    if (!m->content_type)
        m->content_type = "application/json";
    return status;
}

static semel_status send_body_text(reader *r, void *target, semel_bytes value, const char *name)
{
    semel_message *m = &((answer_send *)target)->message;
    semel_status status = one_body(r, m);
    size_t len = 0;
    const char *text = scan_text(&len, &r->out->memory, value);
    if (!status && !text)
        return is_wrong(r, name, "is not a text");
    m->body = (semel_bytes){text, len};
    return status;
}

static semel_status send_body_base64(reader *r, void *target, semel_bytes value, const char *name)
{
    semel_message *m = &((answer_send *)target)->message;
    semel_status status = one_body(r, m);
    const char *text = NULL;
    if (!status)
        status = read_text(&text, r, value, name);
    if (!text)
        return status;
    return binary_from_base64(&m->body, &r->out->memory, text, strlen(text))
               ? SEMEL_OK
               : is_wrong(r, name, "is not base64");
}

static const member send_members[] = {
    {"to", send_to},
    {"type", send_field},
    {"id", send_field},
    {"topic", send_field},
    {"group", send_field},
    {"source", send_field},
    {"correlation_id", send_field},
    {"content_type", send_field},
    {"headers", send_headers},
    {"body", send_body},
    {"body_text", send_body_text},
    {"body_base64", send_body_base64},
    {NULL, NULL},
};

/* --- the answer ------------------------------------------------------------------------------- */

static size_t count_elements(semel_bytes list)
{
    size_t count = 0;
    scan_member one;
    for (const char *at = NULL; scan_next(&one, &at, list);)
        count++;
    return count;
}

static semel_status read_send(reader *r, answer_send *out, semel_bytes value)
{
    if (*(const char *)value.data != '{')
        return is_wrong(r, "send", "has an element that is not an object");
    out->message.size = sizeof out->message;
    semel_status status = read_object(r, out, value, send_members);
    if (!status && !out->to)
        status = is_wrong(r, "send", "has a message without \"to\"");
    if (!status && !out->message.type)
        status = is_wrong(r, "send", "has a message without \"type\"");
    return status;
}

static semel_status read_sends(reader *r, void *target, semel_bytes value, const char *name)
{
    answer *a = target;
    if (*(const char *)value.data != '[')
        return is_wrong(r, name, "is not a list");
    size_t count = count_elements(value);
    if (count > ANSWER_SENDS_MAX)
        return is_wrong(r, name, "has too many messages");
    a->sends = region_alloc(&a->memory, (count + 1) * sizeof *a->sends);
    scan_member one;
    for (const char *at = NULL; scan_next(&one, &at, value);) {
        semel_status status = read_send(r, &a->sends[a->send_count], one.value);
        if (status)
            return status;
        a->send_count++;
    }
    return SEMEL_OK;
}

static semel_status read_status(reader *r, void *target, semel_bytes value, const char *name)
{
    static const struct {
        const char *word;
        answer_status status;
    } words[] = {{"done", ANSWER_DONE},
                 {"retry", ANSWER_RETRY},
                 {"dead", ANSWER_DEAD},
                 {"success", ANSWER_DONE},
                 {"drop", ANSWER_DEAD}};
    const char *text = NULL;
    semel_status status = read_text(&text, r, value, name);
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i].word) == 0) {
            ((answer *)target)->status = words[i].status;
            return SEMEL_OK;
        }
    return status ? status : is_wrong(r, name, "is not one of done, retry, dead");
}

static semel_status read_error(reader *r, void *target, semel_bytes value, const char *name)
{
    answer *a = target;
    size_t len = 0;
    const char *text = scan_text(&len, &a->memory, value);
    if (!text)
        return is_wrong(r, name, "is not a text");
    buffer shown = {0};
    show_text(&shown, text, len, ANSWER_ERROR_MAX);
    a->error = region_copy(&a->memory, shown.data, shown.len);
    buffer_free(&shown);
    return SEMEL_OK;
}

static semel_status read_result(reader *r, void *target, semel_bytes value, const char *name)
{
    if (value.len > SEMEL_RESULT_MAX)
        return is_wrong(r, name, "is larger than 1 MiB");
    ((answer *)target)->result = value;
    return SEMEL_OK;
}

static semel_status read_id(reader *r, void *target, semel_bytes value, const char *name)
{
    return read_text(&((answer *)target)->id, r, value, name);
}

static const member answer_members[] = {
    {"status", read_status}, {"error", read_error}, {"result", read_result},
    {"send", read_sends},    {"id", read_id},       {NULL, NULL},
};

semel_status answer_parse(answer *out, semel_bytes text, semel_error *err)
{
    *out = (answer){0};
    reader r = {out, err};
    semel_bytes value = scan_trimmed(text);
    if (!strict_json_check(value, ANSWER_DEPTH_MAX, NULL))
        return semel_fail(err, SEMEL_EHANDLER, "the answer is not JSON");
    if (*(const char *)value.data != '{')
        return semel_fail(err, SEMEL_EHANDLER, "the answer is not a JSON object");
    semel_status status = read_object(&r, out, value, answer_members);
    if (status)
        answer_free(out);
    return status;
}

void answer_free(answer *a)
{
    region_free(&a->memory);
    *a = (answer){0};
}
