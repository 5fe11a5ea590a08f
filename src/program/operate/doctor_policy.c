/* What RabbitMQ's queues drop. The protocol does not tell; its management does, over HTTP:
 * GET /api/queues/VHOST/QUEUE has the arguments of the queue and the definition of the policies
 * that are in force. One request for each queue that an inbox reads, or an outbox writes.
 *
 * The definition comes with the statistics of the queue, which it sends some seconds after it was
 * made (collect_statistics_interval): without it nothing is known, and that is said. */
#include "program/config/store_url.h"
#include "program/operate/doctor.h"
#include "program/support/strict_json.h"

#include <curl/curl.h>
#include <json-c/json.h>
#include <string.h>

enum { ANSWER_MAX = 1024 * 1024, DEPTH_MAX = 32 };

/* --- one request ------------------------------------------------------------------------------ */

static size_t keep_answer(char *data, size_t size, size_t count, void *context)
{
    buffer *to = context;
    if (to->len + size * count > ANSWER_MAX)
        return 0;
    buffer_add(to, data, size * count);
    return size * count;
}

static void set_options(CURL *curl, const char *url, buffer *answer, long timeout_ms)
{
    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep_answer);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
}

/* The status of HTTP; 0 if there was no answer, and *why is the reason. */
static long get(buffer *answer, const doctor *d, const char *url, const char **why)
{
    enum { TIMEOUT_DEFAULT_MS = 10000 };
    uint64_t timeout = d->options.timeout_ms ? d->options.timeout_ms : TIMEOUT_DEFAULT_MS;
    long status = 0;
    CURL *curl = curl_easy_init();
    if (!curl)
        return 0;
    set_options(curl, url, answer, timeout > 3600000 ? 3600000L : (long)timeout);
    CURLcode code = curl_easy_perform(curl);
    *why = curl_easy_strerror(code);
    if (!code)
        (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    return status;
}

/* --- what an answer says ---------------------------------------------------------------------- */

typedef struct queue_rules {
    const char *queue;   /* on the broker */
    json_object *rules;  /* names to values */
    const char *prefix;  /* of the names: "x-" in arguments */
    const char *set_by;  /* "its arguments", "policy limit" */
    const char *mending; /* what to do about them */
} queue_rules;

static json_object *rule(const queue_rules *of, const char *name)
{
    json_object *value = NULL;
    char full[64];
    (void)snprintf(full, sizeof full, "%s%s", of->prefix, name);
    return json_object_object_get_ex(of->rules, full, &value) ? value : NULL;
}

static void warn(doctor *d, const queue_rules *of, const char *name, const char *consequence)
{
    doctor_find(d, DOCTOR_TOPOLOGY, SEMEL_SEVERITY_WARNING, of->mending,
                "queue \"%s\" has %s %s by %s, so %s", of->queue, name,
                json_object_get_string(rule(of, name)), of->set_by, consequence);
}

/* A full queue that rejects what is published drops nothing: the relay keeps it. */
static int drops_when_full(const queue_rules *of)
{
    json_object *overflow = rule(of, "overflow");
    return !overflow || strncmp(json_object_get_string(overflow), "reject-publish", 14) != 0;
}

static void judge(doctor *d, const queue_rules *of)
{
    static const char *const lengths[] = {"max-length", "max-length-bytes"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        if (rule(of, lengths[i]) && drops_when_full(of))
            warn(d, of, lengths[i], "it drops its oldest messages when it is full (drop-head)");
    if (rule(of, "message-ttl"))
        warn(d, of, "message-ttl", "messages that wait for so many milliseconds are dropped");
    if (rule(of, "expires"))
        warn(d, of, "expires",
             "it is deleted with its messages when no process reads it for so many milliseconds");
}

/* 0 if the answer does not have it. */
static int judge_part(doctor *d, json_object *answer, const char *member, queue_rules of)
{
    int known = json_object_object_get_ex(answer, member, &of.rules);
    if (known && json_object_is_type(of.rules, json_type_object))
        judge(d, &of);
    return known;
}

static const char *policy_name(doctor *d, json_object *answer)
{
    json_object *name = NULL;
    return json_object_object_get_ex(answer, "policy", &name) && name
               ? region_printf(&d->memory, "policy %s", json_object_get_string(name))
               : "a policy";
}

static void judge_object(doctor *d, const char *queue, json_object *answer)
{
    int known = judge_part(d, answer, "effective_policy_definition",
                           (queue_rules){.queue = queue,
                                         .prefix = "",
                                         .set_by = policy_name(d, answer),
                                         .mending = "change the policy, or use overflow "
                                                    "reject-publish"});
    (void)judge_part(d, answer, "arguments",
                     (queue_rules){.queue = queue,
                                   .prefix = "x-",
                                   .set_by = "its arguments",
                                   .mending = "declare the queue anew without it"});
    if (known)
        doctor_find(d, DOCTOR_TOPOLOGY, SEMEL_SEVERITY_OK, NULL, "queue \"%s\": policies were read",
                    queue);
    else
        doctor_find(
            d, DOCTOR_TOPOLOGY, SEMEL_SEVERITY_WARNING,
            "run doctor again in some seconds; statistics of the management must be on",
            "policies of queue \"%s\" are not known: the management has no statistics of it "
            "yet",
            queue);
}

static void judge_answer(doctor *d, const char *queue, const buffer *text)
{
    json_object *answer = NULL;
    if (!strict_json_parse(&answer, (semel_bytes){text->data, text->len}, DEPTH_MAX, NULL) ||
        !json_object_is_type(answer, json_type_object)) {
        doctor_find(d, DOCTOR_TOPOLOGY, SEMEL_SEVERITY_WARNING, NULL,
                    "queue \"%s\": the management answers with something that is no JSON object",
                    queue);
        json_object_put(answer);
        return;
    }
    judge_object(d, queue, answer);
    json_object_put(answer);
}

/* --- all queues ------------------------------------------------------------------------------- */

/* The virtual host of amqp://user@host/VHOST?...: percent-encoded, as the API wants it, too. */
static const char *virtual_host(region *memory, const char *url)
{
    const char *start = strstr(url, "://");
    start = start ? start + 3 : url;
    const char *slash = start + strcspn(start, "/?#");
    size_t len = *slash == '/' ? strcspn(slash + 1, "?#") : 0;
    return len ? region_copy(memory, slash + 1, len) : "%2F";
}

static void ask(doctor *d, const char *base, const queue_config *queue, const char *name)
{
    buffer answer = {0};
    const char *why = "out of memory";
    char *escaped = curl_easy_escape(NULL, name, 0);
    size_t len = strlen(base);
    while (len && base[len - 1] == '/')
        len--;
    long status = get(&answer, d,
                      region_printf(&d->memory, "%.*s/api/queues/%s/%s", (int)len, base,
                                    virtual_host(&d->memory, queue->url), escaped ? escaped : ""),
                      &why);
    if (status == 200)
        judge_answer(d, name, &answer);
    else if (status == 0)
        doctor_find(d, DOCTOR_TOPOLOGY, SEMEL_SEVERITY_WARNING,
                    "correct --rabbitmq-management, or enable the plugin rabbitmq_management",
                    "policies of queue \"%s\" are not known: %s", name, why);
    else if (status != 404) /* a queue that does not exist has no policy */
        doctor_find(d, DOCTOR_TOPOLOGY, SEMEL_SEVERITY_WARNING,
                    "give --rabbitmq-management a user with the tag monitoring",
                    "policies of queue \"%s\" are not known: the management answers %ld", name,
                    status);
    curl_free(escaped);
    buffer_free(&answer);
}

void doctor_look_at_policies(doctor *d)
{
    const char *base = store_url_read(&d->memory, "--rabbitmq-management", d->management);
    if (!base) {
        doctor_find(d, DOCTOR_TOPOLOGY, SEMEL_SEVERITY_ERROR, NULL,
                    "--rabbitmq-management cannot be used");
        return;
    }
    for (size_t i = 0; i < d->all->queue_count; i++) {
        const queue_config *queue = &d->all->queues[i];
        const char *name =
            queue->url ? doctor_url_parameter(&d->memory, queue->url, "queue") : NULL;
        if (name && (queue->is_read || queue->is_written))
            ask(d, base, queue, name);
    }
}
