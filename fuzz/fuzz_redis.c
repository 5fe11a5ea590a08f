/* What a server of Redis answers, read in three ways: as lines "name=value", an empty line and a
 * body, which are the fields of an entry of a stream; as the text of INFO, and of a setting; and as
 * replies in Redis' own protocol, each of which is taken for anything it might be.
 *
 *  - Every entry is a message with an id, within all limits, and the same one if it is read twice.
 *    What was read is written as as many words as are announced, and read again it is the same
 *    message, with all of its headers.
 *  - Facts are what INFO says on a line of that name. A server that evicts keys, or of which it is
 *    not known what it keeps, is refused with the reason unless the URL accepts it.
 *  - Every error has a reason on one line.
 *  - The head of a store's record is refused, or read as it was written. */
#include "pieces.h"
#include "redis/facts.h"
#include "store/redis/redis.h"
#include "transport/redis/entry.h"
#include "transport/redis/streams.h"
#include "trip.h"

enum { FIELDS_MAX = 200, REPLIES_MAX = 16, ANNOUNCED_DIGITS = 3, OVERHEAD_MAX = 64000 };

static const redis_role role = {.title = "redis",
                                .broken = SEMEL_ESTORE,
                                .page = "REDIS.md",
                                .wrong_type = "; use another key",
                                .evicts = "it drops keys",
                                .forgets = "keys"};

/* --- replies ---------------------------------------------------------------------------------- */

/* hiredis makes room for as many elements as are announced: the server is trusted to have them. */
static int announces_too_much(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        size_t digits = 0;
        while (strchr("*%~>", bytes[i]) && i + 1 + digits < len && bytes[i + 1 + digits] >= '0' &&
               bytes[i + 1 + digits] <= '9')
            digits++;
        if (digits > ANNOUNCED_DIGITS)
            return 1;
    }
    return 0;
}

/* As many as the bytes make. */
static size_t parse(redisReply *out[REPLIES_MAX], const void *bytes, size_t len)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    size_t count = 0;
    HOLDS(reader);
    HOLDS(redisReaderFeed(reader, bytes, len) == REDIS_OK);
    while (count < REPLIES_MAX && redisReaderGetReply(reader, &reply) == REDIS_OK && reply)
        out[count++] = reply;
    redisReaderFree(reader);
    return count;
}

/* The words of a request, as the server gives them back. */
static redisReply *reply_of(const redis_request *words)
{
    redisReply *replies[REPLIES_MAX];
    redis_request all = {0};
    redis_begin(&all, words->arguments);
    text_append(&all.bytes, words->bytes.bytes, words->bytes.len);
    HOLDS(parse(replies, all.bytes.bytes, all.bytes.len) == 1);
    mem_free(all.bytes.bytes);
    return replies[0];
}

static redisReply *text_reply(const void *text, size_t len)
{
    redis_request word = {0};
    redis_word(&word, text, len);
    redisReply *replies[REPLIES_MAX];
    HOLDS(parse(replies, word.bytes.bytes, word.bytes.len) == 1);
    mem_free(word.bytes.bytes);
    return replies[0];
}

/* --- an entry --------------------------------------------------------------------------------- */

static stream_delivery *deliver(redisReply *fields)
{
    static const streams self = {.at = {.stream = "orders"}};
    stream_delivery *delivery = stream_delivery_new(&self, "1700000000000-0", 2, fields);
    HOLDS(delivery && delivery->message.delivery == 2);
    check_limits(&delivery->message);
    HOLDS(delivery->message.id.len);
    return delivery;
}

/* The first word is the number of the others. */
static redisReply *write_and_parse(const semel_message *message)
{
    redis_request r = {0};
    stream_entry_write(&r, message);
    HOLDS(r.bytes.len < stream_entry_size(message) + OVERHEAD_MAX);
    redisReply *all = reply_of(&r);
    HOLDS(strtoul(all->element[0]->str, NULL, 10) == r.arguments - 1);
    freeReplyObject(all->element[0]);
    memmove(all->element, all->element + 1, (all->elements - 1) * sizeof(redisReply *));
    all->elements--;
    mem_free(r.bytes.bytes);
    return all;
}

/* The reply becomes the delivery's. */
static void check_entry(redisReply *fields)
{
    stream_delivery *first = deliver(fields);
    stream_delivery *back = deliver(write_and_parse(&first->message));
    check_same(&first->message, &back->message, NULL);
    stream_delivery_free(back);
    stream_delivery_free(first);
}

static void check_lines(const uint8_t *data, size_t size)
{
    redis_request r = {0};
    piece rest = pieces_of(data, size), all = rest, name, value;
    for (int i = 0; i < FIELDS_MAX && take_line(&name, &value, &rest); i++) {
        redis_word(&r, name.at, name.len);
        redis_word(&r, value.at, value.len);
    }
    if (rest.len) {
        redis_word_z(&r, "data");
        redis_word(&r, rest.at, rest.len);
    }
    check_entry(reply_of(&r));
    mem_free(r.bytes.bytes);
    free(all.at);
}

/* --- facts ------------------------------------------------------------------------------------ */

static void check_promises(const redis_facts *facts, const redis_address *at)
{
    char loss[REDIS_LOSS_ROOM] = "";
    semel_error err = {0};
    redis_client client = {.role = &role, .at = at};
    semel_durability grade = redis_facts_grade(facts, at);
    int len = redis_facts_loss(loss, facts, &client);
    HOLDS(len >= 0 && len < REDIS_LOSS_ROOM && strpbrk(loss, "\r\n") == NULL);
    HOLDS(grade >= SEMEL_DURABLE_NOT && grade <= SEMEL_DURABLE_POWER);
    HOLDS(!len || grade == SEMEL_DURABLE_NOT);
    HOLDS(strncmp(facts->policy, "allkeys", 7) != 0 || len);
    HOLDS(at->word || facts->aof > 0 || len);
    semel_status status = redis_facts_refuse(facts, &client, &err);
    HOLDS((status != SEMEL_OK) == (len && !at->allow_loss));
    if (status)
        check_error(status, &err);
    status = redis_facts_check(facts, &client, &err);
    if (status)
        check_error(status, &err);
}

static void check_facts(const redisReply *info, const redisReply *config)
{
    static const redis_address addresses[] = {
        {0}, {.sync = 1}, {.replicas = 1, .allow_loss = 1}, {.word = SEMEL_DURABLE_PROCESS}};
    redis_facts facts, again;
    memset(&again, 'x', sizeof again);
    redis_facts_read(&facts, info, config);
    redis_facts_read(&again, info, config);
    HOLDS(facts.informed == again.informed && facts.major == again.major);
    HOLDS(strcmp(facts.policy, again.policy) == 0 && strcmp(facts.fsync, again.fsync) == 0);
    int is_text = info->type == REDIS_REPLY_STRING;
    HOLDS(facts.informed == (is_text && (strstr(info->str, "\nredis_version:") ||
                                         strncmp(info->str, "redis_version:", 14) == 0)));
    HOLDS(is_text || facts.aof == -1);
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        check_promises(&facts, &addresses[i]);
}

static void check_info(const uint8_t *data, size_t size)
{
    redis_request setting = {0};
    redis_word_z(&setting, "appendfsync");
    redis_word(&setting, data, size);
    redisReply *info = text_reply(data, size), *config = reply_of(&setting);
    check_facts(info, config);
    freeReplyObject(info);
    freeReplyObject(config);
    mem_free(setting.bytes.bytes);
}

/* --- any reply -------------------------------------------------------------------------------- */

static void check_head(const redisReply *reply)
{
    semel_error err = {0};
    semel_keyed_record record = {.guard = 0}, back = {.guard = 0};
    char head[REDIS_HEAD_MAX];
    semel_status status = redis_head_read(&record, reply, &err);
    if (status) {
        check_error(status, &err);
        return;
    }
    redisReply *written = text_reply(head, redis_head_write(head, &record));
    HOLDS(redis_head_read(&back, written, &err) == SEMEL_OK);
    HOLDS(memcmp(record.version, back.version, sizeof back.version) == 0);
    HOLDS(record.guard == back.guard && record.until_ms == back.until_ms);
    freeReplyObject(written);
}

static void check_reply(const redisReply *reply)
{
    static const redis_address at = {.replicas = 1, .sync = 1};
    semel_error err = {0};
    redis_client client = {.role = &role, .at = &at};
    check_head(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        check_error(redis_fail(&client, reply, "reading", &err), &err);
    semel_status status = redis_check_wait(&client, reply, &err);
    if (status)
        check_error(status, &err);
    for (size_t i = 0; reply->element && i < reply->elements; i++)
        check_reply(reply->element[i]);
}

static void check_replies(const uint8_t *data, size_t size)
{
    redisReply *replies[REPLIES_MAX];
    size_t count = announces_too_much((const char *)data, size) ? 0 : parse(replies, data, size);
    for (size_t i = 0; i < count; i++) {
        check_reply(replies[i]);
        check_facts(replies[i], replies[count - 1 - i]);
    }
    for (size_t i = 0; i < count; i++)
        check_entry(replies[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_lines(data, size);
    check_info(data, size);
    check_replies(data, size);
    return 0;
}
