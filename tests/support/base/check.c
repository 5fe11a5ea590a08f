/* See check.h. Each check prints what it found before it ends the test, since a line number alone
 * does not say why a store refused. */
#include "support/base/check.h"

#include "support/process/process.h"

#include <string.h>

semel_error last_error;

/* cmocka would go on in a child with the tests of its parent. */
static void end_test(const char *file, int line)
{
    if (process_is_child())
        process_give_up(file, line, "the check above");
    _fail(file, line);
}

void check_forget(void)
{
    memset(&last_error, 0, sizeof last_error);
}

void check_status(semel_status expected, semel_status status, const char *call, const char *file,
                  int line)
{
    if (status != expected) {
        print_error("%s\n    is %s, not %s: %s\n", call, semel_status_name(status),
                    semel_status_name(expected), last_error.text);
        end_test(file, line);
    }
    if (status && (last_error.status != status || !last_error.text[0])) {
        print_error("%s\n    is %s, but the error says %s, \"%s\"\n", call,
                    semel_status_name(status), semel_status_name(last_error.status),
                    last_error.text);
        end_test(file, line);
    }
}

void check_text(const char *part, const char *file, int line)
{
    if (strstr(last_error.text, part))
        return;
    print_error("the error does not say \"%s\" but \"%s\"\n", part, last_error.text);
    end_test(file, line);
}

static int bytes_differ(semel_bytes one, semel_bytes other)
{
    return one.len != other.len || (one.len && memcmp(one.data, other.data, one.len) != 0);
}

void check_bytes(semel_bytes expected, semel_bytes actual, const char *file, int line)
{
    if (!bytes_differ(expected, actual))
        return;
    print_error("%zu bytes \"%.*s\", expected %zu bytes \"%.*s\"\n", actual.len,
                (int)(actual.len < 64 ? actual.len : 64), (const char *)actual.data, expected.len,
                (int)(expected.len < 64 ? expected.len : 64), (const char *)expected.data);
    end_test(file, line);
}

/* --- messages --------------------------------------------------------------------------------- */

static int texts_differ(const char *one, const char *other)
{
    return strcmp(one ? one : "", other ? other : "") != 0;
}

static const char *header_difference(const semel_message *one, const semel_message *other)
{
    if (one->header_count != other->header_count)
        return "header_count";
    for (size_t i = 0; i < one->header_count; i++)
        if (texts_differ(one->headers[i].name, other->headers[i].name) ||
            bytes_differ(one->headers[i].value, other->headers[i].value))
            return "headers";
    return NULL;
}

static const char *difference(const semel_message *one, const semel_message *other)
{
    return bytes_differ(one->id, other->id)                           ? "id"
           : texts_differ(one->source, other->source)                 ? "source"
           : texts_differ(one->type, other->type)                     ? "type"
           : texts_differ(one->topic, other->topic)                   ? "topic"
           : texts_differ(one->group, other->group)                   ? "group"
           : bytes_differ(one->correlation_id, other->correlation_id) ? "correlation_id"
           : texts_differ(one->content_type, other->content_type)     ? "content_type"
           : one->time_ms != other->time_ms                           ? "time_ms"
           : bytes_differ(one->body, other->body)                     ? "body"
                                                  : header_difference(one, other);
}

void check_message(const semel_message *expected, const semel_message *actual, const char *file,
                   int line)
{
    const char *member = expected && actual ? difference(expected, actual) : "message";
    if (!member)
        return;
    print_error("the messages differ in %s\n", member);
    end_test(file, line);
}

void check_due_message(const semel_message *sent, const semel_message *got, const char *file,
                       int line)
{
    semel_header room[SEMEL_HEADERS_MAX];
    semel_message expected = *sent;
    for (size_t i = 0; i < sent->header_count; i++)
        room[i] = sent->headers[i];
    semel_bytes due = semel_message_header(got, SEMEL_HEADER_DUE);
    if (!due.len)
        fail_msg("%s:%d: the message has no header " SEMEL_HEADER_DUE, file, line);
    room[expected.header_count++] = (semel_header){SEMEL_HEADER_DUE, due};
    expected.headers = room;
    check_message(&expected, got, file, line);
}
