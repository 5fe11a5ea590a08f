/* Answers of handlers, and the JSON of which they are pieces.
 *
 *  - The program's check of JSON agrees with the library's.
 *  - An answer is either refused with a reason on one line, or it is an object, its result and the
 *    bodies that are not text or base64 are JSON that stands in the input, every message has a
 *    destination and a type, and its error is one line.
 *  - The same text is read in the same way twice. */
#include "base/json_text.h"
#include "program/handler/answer.h"
#include "program/support/strict_json.h"
#include "property.h"

static void check_json(semel_bytes input)
{
    json_facts facts;
    int ours = strict_json_check(input, ANSWER_DEPTH_MAX, NULL);
    HOLDS(ours == json_text_check(&facts, input, ANSWER_DEPTH_MAX));
}

static int is_piece(semel_bytes part, semel_bytes input)
{
    const char *start = input.data, *at = part.data;
    return at >= start && at + part.len <= start + input.len &&
           strict_json_check(part, ANSWER_DEPTH_MAX, NULL);
}

static void check_sends(const answer *a, semel_bytes input)
{
    for (size_t i = 0; i < a->send_count; i++) {
        const semel_message *m = &a->sends[i].message;
        HOLDS(a->sends[i].to && m->type);
        HOLDS(m->header_count <= SEMEL_HEADERS_MAX);
        if (m->content_type && strcmp(m->content_type, "application/json") == 0 &&
            !memmem(input.data, input.len, "content_type", 12) &&
            !memmem(input.data, input.len, "\\u", 2))
            HOLDS(is_piece(m->body, input));
    }
}

static semel_status read_answer(answer *out, semel_bytes input)
{
    semel_error err = {0};
    semel_status status = answer_parse(out, input, &err);
    if (status)
        check_error(status, &err);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *copy = exact_copy(data, size);
    semel_bytes input = {copy, size};
    answer a, again;
    check_json(input);
    semel_status status = read_answer(&a, input);
    if (!status) {
        HOLDS(!a.result.data || is_piece(a.result, input));
        HOLDS(!a.error || !strpbrk(a.error, "\r\n"));
        check_sends(&a, input);
        HOLDS(read_answer(&again, input) == SEMEL_OK);
        HOLDS(again.send_count == a.send_count && same_bytes(again.result, a.result));
        HOLDS(same_text(again.error, a.error) && same_text(again.id, a.id));
        answer_free(&again);
        answer_free(&a);
    }
    free(copy);
    return 0;
}
