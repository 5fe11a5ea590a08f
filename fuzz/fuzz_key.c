/* Key expressions, and the keys of messages. The input reads
 *
 *     json:/order/id+header:Tenant        the expression
 *     id=7                                id, source, type, correlation-id; else a header
 *     Tenant=blue
 *                                         an empty line, and then the body
 *     {"order":{"id":"o-7"}}
 *
 *  - An expression is either refused with a reason, or what was understood of it, written again, is
 *    the expression; and it is not made of quoted texts alone.
 *  - A fingerprint takes the same expressions, and the words body and none.
 *  - The same message has the same key, as often as it is asked and wherever in memory it lies.
 *  - The key of several parts can be taken apart into the keys of its parts, and with one that is
 *    not quoted text it is the parts one after the other; it is missing if one of them is.
 *  - Spaces around a JSON body make no difference to a JSON key; and a JSON key stands in the body
 *    word for word, unless there are escapes in it (or it is -0).
 *  - As stored, no key is longer than SEMEL_KEY_MAX or empty, a short one is itself, and none can
 *    pose as the digest of another.
 *  - A fingerprint is never 0, the same for the same message, and of the body it changes with the
 *    body. Of an expression it does not change with spaces around a JSON body, unless there is a
 *    digest in it. */
#include "base/digest.h"
#include "base/json.h"
#include "base/message.h"
#include "core/fingerprint.h"
#include "property.h"

enum { HEADERS = 16, DIGEST_MARK = 0xff };

/* --- the message ------------------------------------------------------------------------------ */

typedef struct reading {
    char *text; /* the input, in which lines become texts */
    char *rest;
    size_t left;
    const char *expression;
    semel_header headers[HEADERS];
    semel_message message;
    void *body;
} reading;

/* The next line, without its end. */
static char *take_line(reading *r)
{
    char *line = r->rest, *end = memchr(line, '\n', r->left);
    size_t len = end ? (size_t)(end - line) : r->left;
    line[len] = 0; /* behind the last line there is room for it */
    len += end != NULL;
    r->rest += len;
    r->left -= len;
    return line;
}

static void take_member(reading *r, char *name)
{
    char *equals = strchr(name, '=');
    if (!equals)
        return;
    *equals = 0;
    semel_bytes value = semel_str(equals + 1);
    if (strcmp(name, "id") == 0)
        r->message.id = value;
    else if (strcmp(name, "correlation-id") == 0)
        r->message.correlation_id = value;
    else if (strcmp(name, "source") == 0)
        r->message.source = value.data;
    else if (strcmp(name, "type") == 0)
        r->message.type = value.data;
    else if (r->message.header_count < HEADERS)
        r->headers[r->message.header_count++] = (semel_header){name, value};
}

static void read_input(reading *r, const uint8_t *data, size_t size)
{
    *r = (reading){.left = size, .message = {.size = sizeof r->message}};
    r->text = r->rest = malloc(size + 1);
    HOLDS(r->text);
    if (size)
        memcpy(r->text, data, size);
    r->text[size] = 0;
    r->message.headers = r->headers;
    r->expression = take_line(r);
    for (char *line; r->left && *(line = take_line(r));)
        take_member(r, line);
    r->body = exact_copy(r->rest, r->left);
    r->message.body = (semel_bytes){r->body, r->left};
}

/* --- the expression --------------------------------------------------------------------------- */

/* Reads the text from the expression, or HOLDS fails. */
static void expect(const char **at, const char *text)
{
    size_t len = strlen(text);
    HOLDS_FOR(*at, strncmp(*at, text, len) == 0);
    *at += len;
}

static void expect_quoted(const char **at, const char *text)
{
    expect(at, "'");
    for (; *text; text++) {
        char one[] = {*text, 0};
        expect(at, *text == '\'' ? "''" : one);
    }
    expect(at, "'");
}

static void expect_argument(const char **at, const char *text)
{
    expect(at, ":");
    if (**at == '\'')
        expect_quoted(at, text);
    else
        expect(at, text);
}

static void expect_part(const char **at, const key_part *part)
{
    static const char *const words[] = {"id",     "correlation-id", "source", "type",
                                        "header", "json",           "digest"};
    HOLDS(part->kind == KEY_LITERAL || part->kind < sizeof words / sizeof *words);
    if (part->kind == KEY_LITERAL) {
        expect_quoted(at, part->argument);
        return;
    }
    expect(at, words[part->kind]);
    if (part->kind == KEY_HEADER || part->kind == KEY_JSON)
        expect_argument(at, part->argument);
}

static void check_plan(const key_plan *plan, const char *expression)
{
    const char *at = expression;
    HOLDS(plan->count >= 1 && plan->count <= KEY_PARTS_MAX);
    HOLDS(key_literals(plan) < plan->count);
    for (size_t i = 0; i < plan->count; i++) {
        if (i)
            expect(&at, "+");
        expect_part(&at, &plan->parts[i]);
        HOLDS_FOR(at, *at == '+' || !*at);
    }
    HOLDS_FOR(at, !*at);
}

static void check_fingerprint_parse(const char *expression, semel_status key_status)
{
    static fingerprint_plan plan;
    semel_error err = {0};
    semel_status status = fingerprint_parse(&plan, expression, &err);
    if (strcmp(expression, "body") == 0 || strcmp(expression, "none") == 0) {
        HOLDS(!status && key_status);
        return;
    }
    HOLDS(status == key_status);
    if (status)
        check_error(status, &err);
    else
        check_plan(&plan.parts, expression);
}

static int parse(key_plan *plan, const char *expression)
{
    semel_error err = {0};
    semel_status status = key_parse(plan, "key", expression, &err);
    check_fingerprint_parse(expression, status);
    if (!status) {
        check_plan(plan, expression);
        return 1;
    }
    check_error(status, &err);
    HOLDS(status == SEMEL_EINVAL || status == SEMEL_ELIMIT || status == SEMEL_EUNSUPPORTED);
    HOLDS(status != SEMEL_ELIMIT || strlen(expression) > KEY_EXPRESSION_MAX);
    HOLDS(status != SEMEL_EUNSUPPORTED || !json_built_in() || !digest_built_in());
    return 0;
}

/* --- the key ---------------------------------------------------------------------------------- */

static semel_bytes key_of(mem_arena *arena, const key_plan *plan, const semel_message *message)
{
    semel_bytes key = {NULL, 0};
    HOLDS(key_compute(&key, arena, plan, message, NULL) == SEMEL_OK);
    HOLDS(key.data || !key.len);
    return key;
}

static semel_bytes key_of_part(mem_arena *arena, const key_plan *plan, size_t index,
                               const semel_message *message)
{
    key_plan one = {.parts = {plan->parts[index]}, .count = 1};
    return key_of(arena, &one, message);
}

/* Reads "<length>:<bytes>," from the key, and moves it behind. */
static void check_joined_part(semel_bytes *key, semel_bytes expected)
{
    const char *at = key->data;
    size_t len = 0, used = 0;
    for (; used < key->len && at[used] >= '0' && at[used] <= '9'; used++)
        len = len * 10 + (size_t)(at[used] - '0');
    HOLDS(used && used < key->len && at[used] == ':');
    used++;
    HOLDS(len < key->len - used && at[used + len] == ',');
    HOLDS(same_bytes((semel_bytes){at + used, len}, expected));
    used += len + 1;
    *key = (semel_bytes){at + used, key->len - used};
}

/* Reads the bytes from the key, and moves it behind. */
static void check_appended_part(semel_bytes *key, semel_bytes expected)
{
    HOLDS(expected.len <= key->len);
    HOLDS(same_bytes((semel_bytes){key->data, expected.len}, expected));
    *key = (semel_bytes){(const char *)key->data + expected.len, key->len - expected.len};
}

static void check_parts(mem_arena *arena, const key_plan *plan, const semel_message *message,
                        semel_bytes key)
{
    int missing = 0;
    for (size_t i = 0; i < plan->count; i++)
        missing |= !key_of_part(arena, plan, i, message).len;
    HOLDS(missing == !key.len);
    if (missing)
        return;
    int joined = plan->count - key_literals(plan) > 1;
    for (size_t i = 0; i < plan->count; i++) {
        semel_bytes part = key_of_part(arena, plan, i, message);
        if (joined)
            check_joined_part(&key, part);
        else
            check_appended_part(&key, part);
    }
    HOLDS(!key.len);
}

static int has_kind(const key_plan *plan, key_kind kind)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->parts[i].kind == kind)
            return 1;
    return 0;
}

static uint64_t fingerprint_of(mem_arena *arena, const key_plan *plan, const semel_message *message)
{
    static fingerprint_plan fingerprint = {.kind = FINGERPRINT_PARTS};
    uint64_t sum = 0;
    fingerprint.parts = *plan;
    HOLDS(fingerprint_compute(&sum, arena, &fingerprint, message, NULL) == SEMEL_OK && sum);
    return sum;
}

static void check_elsewhere(mem_arena *arena, const key_plan *plan, const semel_message *message,
                            semel_bytes key)
{
    semel_message *copy = message_copy_into(arena, message);
    HOLDS(copy);
    HOLDS(same_bytes(key_of(arena, plan, copy), key));
    HOLDS(key_fingerprint(copy) == key_fingerprint(message));
    HOLDS(fingerprint_of(arena, plan, copy) == fingerprint_of(arena, plan, message));
}

static void check_spaces(mem_arena *arena, const key_plan *plan, const semel_message *message,
                         semel_bytes key)
{
    semel_message spaced = *message;
    char *body = arena_alloc(arena, message->body.len + 4);
    HOLDS(body);
    memcpy(body, "\t ", 2);
    memcpy(body + 2, message->body.data, message->body.len);
    memcpy(body + 2 + message->body.len, "\r\n", 2);
    spaced.body = (semel_bytes){body, message->body.len + 4};
    HOLDS(has_kind(plan, KEY_DIGEST) || same_bytes(key_of(arena, plan, &spaced), key));
    HOLDS(key_fingerprint(&spaced) != key_fingerprint(message));
    HOLDS((fingerprint_of(arena, plan, &spaced) == fingerprint_of(arena, plan, message)) ==
          !has_kind(plan, KEY_DIGEST));
}

static void check_json(mem_arena *arena, const key_plan *plan, const semel_message *message)
{
    semel_bytes body = message->body;
    for (size_t i = 0; i < plan->count; i++) {
        semel_bytes value = key_of_part(arena, plan, i, message);
        if (plan->parts[i].kind != KEY_JSON || !value.len || memchr(body.data, '\\', body.len))
            continue;
        HOLDS(memmem(body.data, body.len, value.data, value.len) ||
              same_bytes(value, semel_str("0")));
    }
}

static void check_stored(mem_arena *arena, semel_bytes key)
{
    const unsigned char *first = key.data;
    semel_bytes stored = {NULL, 0}, again = {NULL, 0};
    int kept = key.len <= SEMEL_KEY_MAX && *first != DIGEST_MARK;
    semel_status status = key_stored(&stored, arena, key, NULL);
    if (!kept && !digest_built_in()) {
        HOLDS(status == SEMEL_EUNSUPPORTED);
        return;
    }
    HOLDS(!status && stored.len && stored.len <= SEMEL_KEY_MAX);
    HOLDS(same_bytes(stored, key) == kept);
    if (kept)
        return;
    HOLDS(stored.len == 1 + DIGEST_SIZE && *(const unsigned char *)stored.data == DIGEST_MARK);
    HOLDS(key_stored(&again, arena, stored, NULL) == SEMEL_OK && !same_bytes(again, stored));
}

static void check_key(const key_plan *plan, const semel_message *message)
{
    mem_arena arena = {0};
    semel_bytes key = key_of(&arena, plan, message);
    HOLDS(same_bytes(key_of(&arena, plan, message), key));
    HOLDS(key_fingerprint(message) != 0);
    check_parts(&arena, plan, message, key);
    check_elsewhere(&arena, plan, message, key);
    check_spaces(&arena, plan, message, key);
    check_json(&arena, plan, message);
    if (key.len)
        check_stored(&arena, key);
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static key_plan plan;
    reading r;
    read_input(&r, data, size);
    if (parse(&plan, r.expression) && message_check(&r.message, NULL) == SEMEL_OK)
        check_key(&plan, &r.message);
    free(r.body);
    free(r.text);
    return 0;
}
