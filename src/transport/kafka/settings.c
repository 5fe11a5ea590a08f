/* X.name=value hands a setting of librdkafka on: TLS, SASL, timeouts, sizes. The transport's
 * promises rest on some settings; these are refused, each with what to write instead, and so are
 * those that load code or change where messages are reported.
 *
 * X.name=file:PATH takes the value from a file, for secrets: without the line break at its end, and
 * only if other users cannot read it. */
#include "transport/kafka/settings.h"

#include "base/authority.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 65536 };

static const char prefix[] = "X.";
static const char from_file[] = "file:";

/* --- which names ------------------------------------------------------------------------------ */

typedef struct refused_name {
    const char *name;
    const char *why;
} refused_name;

static const char by_url[] = "the URL itself says it";
static const char confirms[] = "a confirmation would no longer mean what it says";
static const char commits[] = "semel commits an offset when everything before it is settled";
static const char internal[] = "it is not for semel";

static const refused_name refused_names[] = {
    {"bootstrap.servers", by_url},
    {"metadata.broker.list", by_url},
    {"client.id", "write name="},
    {"group.id", "write group="},
    {"group.instance.id", "write instance="},
    {"auto.offset.reset", "write from=earliest or from=latest"},
    {"partition.assignment.strategy", "write assignment=eager or assignment=cooperative"},
    {"acks", confirms},
    {"request.required.acks", confirms},
    {"enable.idempotence", confirms},
    {"enable.gapless.guarantee", confirms},
    {"max.in.flight", confirms},
    {"max.in.flight.requests.per.connection", confirms},
    {"retries", confirms},
    {"message.send.max.retries", confirms},
    {"message.timeout.ms", confirms},
    {"delivery.timeout.ms", confirms},
    {"delivery.report.only.error", confirms},
    {"queuing.strategy", confirms},
    {"transactional.id", confirms},
    {"allow.auto.create.topics", "a missing topic is unroutable, and is not made"},
    {"enable.auto.commit", commits},
    {"auto.commit.enable", commits},
    {"auto.commit.interval.ms", commits},
    {"enable.auto.offset.store", commits},
    {"offset.store.method", commits},
    {"offset.store.path", commits},
    {"isolation.level", "messages of aborted transactions are no messages"},
    {"enable.partition.eof", internal},
    {"plugin.library.paths", "it loads code"},
    {"ssl.engine.location", "it loads code"},
    {"opaque", internal},
    {"test.mock.num.brokers", internal},
    {"test.mock.broker.rtt", internal},
    {"internal.termination.signal", internal},
    {"statistics.interval.ms", internal},
    {"log.queue", internal},
};

int kafka_setting_is_named(const char *parameter)
{
    return strncmp(parameter, prefix, sizeof prefix - 1) == 0;
}

int kafka_setting_is_secret(const char *name)
{
    static const char *const parts[] = {"password", "secret", "pem", "sasl.oauthbearer.config",
                                        "sasl.kerberos.kinit.cmd"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (text_contains(name, parts[i]))
            return 1;
    return 0;
}

/* A name that ends with _cb takes the address of a function. */
static semel_status check_name(const char *name, semel_error *err)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < sizeof refused_names / sizeof *refused_names; i++)
        if (strcmp(refused_names[i].name, name) == 0)
            return semel_fail(err, SEMEL_EINVAL, "URL: \"%s%s\" cannot be set: %s", prefix, name,
                              refused_names[i].why);
    if (!len || (len > 3 && strcmp(name + len - 3, "_cb") == 0))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: %s takes the name of a setting of librdkafka, as in "
                          "X.security.protocol=ssl",
                          prefix);
    return SEMEL_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static semel_status fail_file(const char *name, const char *why, semel_error *err)
{
    return semel_fail(err, SEMEL_EINVAL, "URL: the file of \"%s%s\" %s", prefix, name, why);
}

/* A group of which root is the owner may read it: so systemd and containers hand secrets over. */
static semel_status check_file(int fd, const char *name, semel_error *err)
{
    struct stat is;
    if (fstat(fd, &is) != 0 || !S_ISREG(is.st_mode))
        return fail_file(name, "is no regular file", err);
    if (is.st_size > FILE_MAX)
        return fail_file(name, "has over 64 KiB", err);
    if (kafka_setting_is_secret(name) &&
        ((is.st_mode & S_IROTH) || ((is.st_mode & S_IRGRP) && is.st_uid != 0)))
        return fail_file(name, "holds a secret, and other users can read it (chmod 600)", err);
    return SEMEL_OK;
}

/* -1: it could not be read. */
static ssize_t read_whole(int fd, char *to, size_t room)
{
    size_t len = 0;
    while (len < room) {
        ssize_t got = read(fd, to + len, room - len);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return -1;
        len += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)len;
}

static semel_status read_secret(const char **out, mem_arena *arena, int fd, const char *name,
                                semel_error *err)
{
    char *text = arena_alloc(arena, FILE_MAX + 1);
    if (!text)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory reading a URL");
    ssize_t got = read_whole(fd, text, FILE_MAX);
    size_t len = got > 0 ? (size_t)got : 0;
    while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    if (got < 0)
        return fail_file(name, "cannot be read", err);
    if (!len || memchr(text, 0, len))
        return fail_file(name, len ? "has a NUL byte" : "is empty", err);
    text[len] = 0;
    *out = text;
    return SEMEL_OK;
}

static semel_status read_file(const char **out, mem_arena *arena, const char *name,
                              const char *path, semel_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return fail_file(name, errno == ENOENT ? "is not there" : "cannot be opened", err);
    semel_status status = check_file(fd, name, err);
    if (!status)
        status = read_secret(out, arena, fd, name, err);
    (void)close(fd);
    return status;
}

/* --- all of them ------------------------------------------------------------------------------ */

static semel_status read_setting(kafka_setting *out, mem_arena *arena, const url_parameter *given,
                                 semel_error *err)
{
    const char *name = NULL, *value = NULL;
    semel_status status =
        authority_decode(&name, arena, "name of a setting", given->name, strlen(given->name), err);
    if (!status)
        status = authority_decode(&value, arena, "value of a setting", given->value,
                                  strlen(given->value), err);
    if (status)
        return status;
    *out = (kafka_setting){name + sizeof prefix - 1, value};
    status = check_name(out->name, err);
    if (!status && strncmp(value, from_file, sizeof from_file - 1) == 0)
        status = read_file(&out->value, arena, out->name, value + sizeof from_file - 1, err);
    return status;
}

semel_status kafka_settings_read(kafka_address *address, const url *parsed, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < parsed->parameter_count; i++) {
        kafka_setting one;
        if (!kafka_setting_is_named(parsed->parameters[i].name))
            continue;
        status = read_setting(&one, &address->arena, &parsed->parameters[i], err);
        if (!status)
            address->settings[address->setting_count++] = one;
    }
    return status;
}
