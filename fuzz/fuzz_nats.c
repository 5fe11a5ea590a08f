/* Messages of NATS, from any publisher:
 *
 *     subject=orders.eu               subject, reply
 *     prefix=orders                   subject= of the URL
 *     :ce-id=7                        a header, behind the colon
 *                                     an empty line, and then the data
 *     {"item":1}
 *
 *  - Every delivery is a message with an id, within all limits, and the same one if it is read
 *    twice.
 *  - What was read can be written, unless NATS has no room for it or its topic is no subject. What
 *    is written goes to a subject that can be published to, below that of the URL, in headers that
 *    NATS carries as they are, and takes the bytes that were calculated and not one less. Read
 *    again it is the same message, even if other clients changed the case of the headers' names.
 *  - Escaped bytes are printable, and come back; no text becomes longer by that.
 *  - A subject is one exactly if all its tokens are, and what is a name is a subject.
 *  - Left out is an event in an event, which would mean something else the second time. */
#include "base/text.h"
#include "pieces.h"
#include "transport/nats/envelope.h"
#include "transport/nats/escape.h"
#include "transport/nats/subject.h"
#include "trip.h"

enum { HEADERS_MAX = 200, ROOM_FOR_ALL = 1 << 20 };

/* --- the input -------------------------------------------------------------------------------- */

typedef struct message_input {
    natsMsg *raw;
    const char *subject, *reply, *prefix;
    char *text;
} message_input;

static void read_line(message_input *in, piece name, piece value)
{
    if (name.at[0] == ':')
        return;
    if (strcmp(name.at, "subject") == 0)
        in->subject = value.at;
    else if (strcmp(name.at, "reply") == 0)
        in->reply = value.at;
    else if (strcmp(name.at, "prefix") == 0)
        in->prefix = value.at;
}

/* Lines are read twice: a message has its subject before it has headers. */
static void read_input(message_input *out, const uint8_t *data, size_t size)
{
    piece rest = pieces_of(data, size), name, value;
    piece headers[HEADERS_MAX][2];
    size_t count = 0;
    *out = (message_input){.subject = "orders", .prefix = "", .text = rest.at};
    while (take_line(&name, &value, &rest)) {
        read_line(out, name, value);
        if (name.len > 1 && name.at[0] == ':' && count < HEADERS_MAX) {
            headers[count][0] = name;
            headers[count++][1] = value;
        }
    }
    if (!jet_subject_is_plain(out->prefix) || strlen(out->prefix) >= JET_NAME_ROOM)
        out->prefix = "";
    HOLDS(natsMsg_Create(&out->raw, *out->subject ? out->subject : "orders", NULL, rest.at,
                         (int)rest.len) == NATS_OK);
    for (size_t i = 0; i < count; i++) /* an empty name is refused */
        (void)natsMsgHeader_Add(out->raw, headers[i][0].at + 1, headers[i][1].at);
}

/* --- where it comes from ---------------------------------------------------------------------- */

static void find_origin(jet_origin *out, const char *reply)
{
    static const char usual[] = "$JS.ACK.ORDERS.stock.2.71.70.1767225600123000000.0";
    if (reply && jet_origin_read(out, reply)) {
        const char *stream = out->stream.data;
        HOLDS(stream > reply && stream + out->stream.len <= reply + strlen(reply));
        HOLDS(!out->stream.len || !memchr(stream, '.', out->stream.len));
        HOLDS(out->deliveries && out->sequence);
        return;
    }
    HOLDS(jet_origin_read(out, usual));
    HOLDS(out->deliveries == 2 && out->sequence == 71 && out->stream.len == 6);
}

/* --- there and back --------------------------------------------------------------------------- */

static void upper(char *text)
{
    for (; *text; text++)
        if (*text >= 'a' && *text <= 'z')
            *text = (char)(*text - 'a' + 'A');
}

static int is_carried(const char *text)
{
    for (const char *at = text; *at; at++)
        if (*at < ' ' || *at >= 0x7f)
            return 0;
    return !*text || (text[0] != ' ' && text[strlen(text) - 1] != ' ');
}

/* Copies a header and returns how many bytes it takes. */
static size_t carry(natsMsg *to, natsMsg *from, const char *name, int change_case)
{
    const char *value = NULL;
    HOLDS(natsMsgHeader_Get(from, name, &value) == NATS_OK);
    HOLDS_FOR(name, *name && is_carried(name) && !strpbrk(name, ": "));
    HOLDS_FOR(value, is_carried(value));
    char *other = exact_text(name, strlen(name));
    if (change_case)
        upper(other);
    HOLDS(natsMsgHeader_Set(to, other, value) == NATS_OK);
    free(other);
    return strlen(name) + strlen(value) + sizeof ": \r\n" - 1;
}

/* nats.c 3.4 may give the value of "traceparent" for "trace": then sizes cannot be compared. */
static int is_ambiguous(const char *const names[], int count)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            if (i != j && strncmp(names[i], names[j], strlen(names[i])) == 0)
                return 1;
    return 0;
}

/* As the server hands it on. Returns the size of headers and data; 0: it is not known. */
static size_t arrive(natsMsg **out, natsMsg *sent, int change_case)
{
    const char **names = NULL;
    int count = 0;
    size_t size = (size_t)natsMsg_GetDataLength(sent) + sizeof "NATS/1.0\r\n\r\n" - 1;
    HOLDS(natsMsg_Create(out, natsMsg_GetSubject(sent), NULL, natsMsg_GetData(sent),
                         natsMsg_GetDataLength(sent)) == NATS_OK);
    if (natsMsgHeader_Keys(sent, &names, &count) != NATS_OK)
        return size;
    for (int i = 0; i < count; i++)
        size += carry(*out, sent, names[i], change_case);
    if (is_ambiguous(names, count))
        size = 0;
    free((void *)names);
    return size;
}

static void check_subject(const char *subject, const char *prefix, const char *topic)
{
    size_t len = strlen(prefix);
    HOLDS_FOR(subject, jet_subject_is_plain(subject));
    HOLDS_FOR(subject, strncmp(subject, prefix, len) == 0);
    HOLDS_FOR(subject, !len || !subject[len] || subject[len] == '.');
    subject += len + (len && subject[len]);
    HOLDS_FOR(subject, strcmp(subject, topic ? topic : "") == 0 || (!topic && len));
}

static void check_arrival(const semel_message *message, natsMsg *sent, const char *prefix,
                          int change_case)
{
    natsMsg *raw = NULL;
    mem_arena arena = {0};
    jet_origin origin;
    find_origin(&origin, NULL);
    (void)arrive(&raw, sent, change_case);
    const semel_message *back = jet_envelope_read(&arena, raw, &origin, prefix);
    HOLDS(back && back->delivery == 2);
    check_same(message, back, NULL);
    arena_free(&arena);
    natsMsg_Destroy(raw);
}

/* All of it is told to be as large as it is. */
static void check_size(natsMsg *sent, const jet_address *address, const semel_message *message)
{
    natsMsg *copy = NULL, *other = NULL;
    mem_arena arena = {0};
    semel_error err = {0};
    size_t size = arrive(&copy, sent, 0);
    natsMsg_Destroy(copy);
    if (!size)
        return;
    HOLDS(jet_envelope_write(&other, &arena, address, message, NULL, (int64_t)size - 1, &err) ==
          SEMEL_ELIMIT);
    check_error(SEMEL_ELIMIT, &err);
    HOLDS(jet_envelope_write(&other, &arena, address, message, NULL, (int64_t)size, &err) ==
          SEMEL_OK);
    natsMsg_Destroy(other);
    arena_free(&arena);
}

static void check_trip(const semel_message *message, const char *prefix)
{
    static jet_address address;
    natsMsg *sent = NULL;
    mem_arena arena = {0};
    semel_error err = {0};
    address.message_ids = 1;
    (void)snprintf(address.subject, sizeof address.subject, "%s", prefix);
    (void)snprintf(address.stream, sizeof address.stream, "ORDERS");
    semel_status status =
        jet_envelope_write(&sent, &arena, &address, message, "reply", ROOM_FOR_ALL, &err);
    if (status) {
        check_error(status, &err);
        HOLDS(status == SEMEL_ELIMIT || (status == SEMEL_EINVAL && !message->topic && !*prefix));
    } else {
        check_subject(natsMsg_GetSubject(sent), prefix, message->topic);
        check_arrival(message, sent, prefix, 0);
        check_arrival(message, sent, prefix, 1);
        check_size(sent, &address, message);
        natsMsg_Destroy(sent);
    }
    arena_free(&arena);
}

/* --- texts ------------------------------------------------------------------------------------ */

static void check_escape(const uint8_t *data, size_t size, const char *more)
{
    mem_arena arena = {0};
    size_t len = 0, plain_len = 0;
    char *text = malloc(3 * size + 1);
    HOLDS(text);
    size_t used = (size_t)(jet_escape(text, (semel_bytes){data, size}, more) - text);
    for (size_t i = 0; i < used; i++)
        HOLDS(text[i] > ' ' && text[i] < 0x7f && text[i] != '"' && !strchr(more, text[i]));
    const char *back = jet_unescape(&len, &arena, text, used);
    HOLDS(back && same_bytes((semel_bytes){back, len}, (semel_bytes){data, size}));
    HOLDS(jet_unescape(&plain_len, &arena, (const char *)data, size) && plain_len <= size);
    arena_free(&arena);
    free(text);
}

static int is_token(const char *at, size_t len, int is_last, int wildcards)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)at[i] <= ' ' || at[i] == 0x7f)
            return 0;
    if (len == 1 && (*at == '*' || *at == '>'))
        return wildcards && (*at == '*' || is_last);
    return len > 0;
}

static int has_good_tokens(const char *text, int wildcards)
{
    for (const char *end; (end = strchr(text, '.')) != NULL; text = end + 1)
        if (!is_token(text, (size_t)(end - text), 0, wildcards))
            return 0;
    return is_token(text, strlen(text), 1, wildcards);
}

static void check_subjects(const char *text)
{
    int is_plain = jet_subject_is_plain(text), is_pattern = jet_subject_is_pattern(text);
    HOLDS_FOR(text, is_plain == has_good_tokens(text, 0));
    HOLDS_FOR(text, is_pattern == has_good_tokens(text, 1));
    HOLDS_FOR(text, !jet_name_is_valid(text) || (is_plain && !strchr(text, '.')));
}

/* --- all of it -------------------------------------------------------------------------------- */

static void check_message(const message_input *input)
{
    jet_origin origin;
    mem_arena arena = {0};
    find_origin(&origin, input->reply);
    const semel_message *message = jet_envelope_read(&arena, input->raw, &origin, input->prefix);
    const semel_message *again = jet_envelope_read(&arena, input->raw, &origin, input->prefix);
    HOLDS(message && again);
    check_limits(message);
    HOLDS(message->id.len && !message->delay_ms);
    HOLDS(message->delivery >= 1 && message->delivery <= JET_DELIVERY_MAX);
    check_same(message, again, NULL);
    if (!is_event_in_body(message))
        check_trip(message, input->prefix);
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int opened;
    message_input input;
    if (!opened) { /* nats.c frees messages in a thread of its own */
        HOLDS(nats_Open(-1) == NATS_OK && atexit(nats_Close) == 0);
        opened = 1;
    }
    read_input(&input, data, size);
    check_message(&input);
    check_subjects(input.subject);
    check_escape(data, size, "");
    check_escape(data, size, "&=");
    natsMsg_Destroy(input.raw);
    free(input.text);
    return 0;
}
