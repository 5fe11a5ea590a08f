/* The errors of AWS that are the same for every service: by type, and what a person can do. */
#include "cloud/aws.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

static const char *text_of(json_object *document, const char *name)
{
    json_object *value = NULL;
    return json_object_object_get_ex(document, name, &value) &&
                   json_object_is_type(value, json_type_string)
               ? json_object_get_string(value)
               : NULL;
}

/* Printable ASCII only: it goes to terminals and logs. */
static void copy_plain(char *out, size_t room, const char *text)
{
    size_t len = 0;
    for (; *text && len + 1 < room; text++)
        out[len++] = (char)(*text >= ' ' && *text < 127 ? *text : '?');
    out[len] = 0;
}

static void take_error(aws_answer *answer, json_object *document)
{
    const char *type = text_of(document, "__type");
    const char *message = text_of(document, "message");
    const char *hash = type ? strrchr(type, '#') : NULL;
    if (!message)
        message = text_of(document, "Message");
    copy_plain(answer->type, sizeof answer->type, hash ? hash + 1 : type ? type : "");
    copy_plain(answer->message, sizeof answer->message, message ? message : "");
}

void aws_answer_explain(aws_answer *answer)
{
    enum { DEPTH = 32 };
    const text_buffer *body = &answer->http.body;
    answer->type[0] = answer->message[0] = 0;
    if (answer->http.status >= 200 && answer->http.status < 300)
        return;
    json_tokener *reader = body->len && body->len < INT32_MAX ? json_tokener_new_ex(DEPTH) : NULL;
    json_object *document =
        reader ? json_tokener_parse_ex(reader, body->bytes, (int)body->len) : NULL;
    if (json_object_is_type(document, json_type_object))
        take_error(answer, document);
    json_object_put(document);
    if (reader)
        json_tokener_free(reader);
    if (!answer->type[0])
        (void)snprintf(answer->type, sizeof answer->type, "HTTP status %ld", answer->http.status);
}

static const struct {
    const char *type;
    const char *advice;
} known[] = {
    {"AccessDeniedException",
     "the credentials lack a permission; docs/DYNAMODB.md has the policy that semel needs"},
    {"UnrecognizedClientException",
     "AWS does not know these credentials; check AWS_ACCESS_KEY_ID or the profile, and the region"},
    {"InvalidClientTokenId",
     "AWS does not know these credentials; check AWS_ACCESS_KEY_ID or the profile, and the region"},
    {"ExpiredTokenException",
     "the session token has expired; renew the credentials (AWS_SESSION_TOKEN, or aws sso login)"},
    {"ExpiredToken",
     "the session token has expired; renew the credentials (AWS_SESSION_TOKEN, or aws sso login)"},
    {"InvalidSignatureException",
     "check AWS_SECRET_ACCESS_KEY, the region and the clock of this host"},
    {"IncompleteSignatureException", "check AWS_ACCESS_KEY_ID and the region"},
    {"MissingAuthenticationTokenException", "a proxy may have removed the signature"},
    {"RequestTimeTooSkewed", "the clock of this host is wrong; set it (NTP)"},
    {"RequestExpired", "the clock of this host is wrong; set it (NTP)"}};

semel_status aws_fail(const aws_client *client, const aws_answer *answer, const char *doing,
                      semel_error *err)
{
    const char *advice = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known && !advice; i++)
        if (strcmp(answer->type, known[i].type) == 0)
            advice = known[i].advice;
    semel_status status =
        semel_fail(err, SEMEL_ESTORE, "%s at %s, %s: %s%s%s%s%s", aws_service(client),
                   aws_endpoint(client), doing, answer->type, answer->message[0] ? ": " : "",
                   answer->message, advice ? "; " : "", advice ? advice : "");
    if (err)
        err->native = (int32_t)answer->http.status;
    return status;
}
