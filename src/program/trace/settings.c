/* See settings.h. */
#include "program/trace/settings.h"

#include "program/support/unique_id.h"
#include "program/trace/packed.h"

#include <semel/semel.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    TIMEOUT_MS = 10000,
    QUEUE_SPANS = 2048,
    BATCH_SPANS = 512,
    DELAY_MS = 5000,
    EXPORT_MS = 30000,
    QUEUE_MOST = 1 << 20,
    WAIT_MOST_MS = 3600000,
    PAIRS_MAX = 64,
    WARNINGS_MAX = 32
};

#define RATIO_DEFAULT 0.01
#define TRACES_PATH   "/v1/traces"

/* Those that are read, in one place. */
typedef struct reading {
    trace_settings *out;
    const tracing_config *file;
    char *(*get)(const char *name);
} reading;

/* An empty variable is as none. */
static const char *variable(const reading *r, const char *name)
{
    const char *value = r->get(name);
    return value && *value ? value : NULL;
}

static void warn(const reading *r, const char *name, const char *why)
{
    trace_settings *out = r->out;
    if (out->warning_count < WARNINGS_MAX)
        out->warnings[out->warning_count++] = region_printf(&out->memory, "%s %s", name, why);
}

static uint32_t number(const reading *r, const char *name, uint32_t least, uint32_t most,
                       uint32_t otherwise)
{
    const char *text = variable(r, name);
    char *end = NULL;
    if (!text)
        return otherwise;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && value >= least && value <= most)
        return (uint32_t)value;
    warn(r, name, "is ignored: it is not a number in the range that is allowed");
    return otherwise;
}

/* --- where to --------------------------------------------------------------------------------- */

static int is_http(const char *url)
{
    return strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0;
}

/* The address of a collector, to which the path of the signal is added; the whole address is
 * accepted, too. */
static const char *with_path(const reading *r, const char *base)
{
    size_t len = strlen(base), path = strlen(TRACES_PATH);
    if (len > path && strcmp(base + len - path, TRACES_PATH) == 0)
        return region_copy(&r->out->memory, base, len);
    while (len && base[len - 1] == '/')
        len--;
    return region_printf(&r->out->memory, "%.*s%s", (int)len, base, TRACES_PATH);
}

static const char *checked(const reading *r, const char *name, const char *url)
{
    if (!url || is_http(url))
        return url;
    warn(r, name, "is ignored: a URL of http:// or https:// is expected");
    return NULL;
}

static int is_off(const reading *r)
{
    const char *disabled = variable(r, "OTEL_SDK_DISABLED");
    const char *exporter = variable(r, "OTEL_TRACES_EXPORTER");
    return (disabled && strcasecmp(disabled, "true") == 0) ||
           (exporter && strcmp(exporter, "none") == 0);
}

static const char *find_url(const reading *r)
{
    static const char all[] = "OTEL_EXPORTER_OTLP_ENDPOINT";
    static const char traces[] = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    const char *own = checked(r, traces, variable(r, traces));
    const char *base = checked(r, all, variable(r, all));
    if (is_off(r))
        return NULL;
    if (r->file->endpoint)
        return with_path(r, r->file->endpoint);
    if (own)
        return region_copy(&r->out->memory, own, strlen(own));
    return base ? with_path(r, base) : NULL;
}

/* --- lists: name=value,name=value, with %20 in values ----------------------------------------- */

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef",
               *at = strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c);
    return c && at ? (int)(at - digits) : -1;
}

static const char *decoded(region *memory, const char *text, size_t len)
{
    char *out = region_alloc(memory, len + 1), *to = out;
    for (size_t i = 0; i < len; i++) {
        int high = text[i] == '%' && i + 2 < len ? hex_digit(text[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
        if (low < 0) {
            *to++ = text[i];
            continue;
        }
        *to++ = (char)(high * 16 + low);
        i += 2;
    }
    return out;
}

static size_t trim(const char **text, size_t len)
{
    while (len && (**text == ' ' || **text == '\t')) {
        ++*text;
        len--;
    }
    while (len && ((*text)[len - 1] == ' ' || (*text)[len - 1] == '\t'))
        len--;
    return len;
}

/* All or, if it is no such list, nothing. */
static size_t read_list(const reading *r, config_pair out[PAIRS_MAX], const char *name)
{
    region *memory = &r->out->memory;
    size_t count = 0;
    for (const char *at = variable(r, name); at && *at;) {
        const char *item = at, *whole = at;
        size_t len = strcspn(at, ","), key = strcspn(at, "=,");
        const char *value = at + key + 1;
        at += len + (at[len] == ',');
        if (!trim(&whole, len))
            continue;
        size_t name_len = trim(&item, key);
        if (key >= len || !name_len || count == PAIRS_MAX) {
            warn(r, name, "is ignored: it is not a list of name=value,name=value");
            return 0;
        }
        size_t value_len = trim(&value, len - key - 1);
        out[count++] =
            (config_pair){decoded(memory, item, name_len), decoded(memory, value, value_len)};
    }
    return count;
}

static int is_header(const config_pair *pair)
{
    if (!*pair->name || strpbrk(pair->name, " \t:\"(),/;<=>?@[\\]{}"))
        return 0;
    for (const char *at = pair->name; *at; at++)
        if (*at <= ' ' || *at > '~')
            return 0;
    for (const char *at = pair->value; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return 0;
    return 1;
}

/* Those of the file; without any, those of the environment. */
static void read_headers(const reading *r)
{
    static const char all[] = "OTEL_EXPORTER_OTLP_HEADERS";
    static const char traces[] = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
    const char *name = variable(r, traces) ? traces : all;
    config_pair *pairs = region_alloc(&r->out->memory, PAIRS_MAX * sizeof *pairs);
    if (r->file->headers.count) {
        r->out->headers = r->file->headers;
        return;
    }
    size_t count = read_list(r, pairs, name), good = 0;
    for (size_t i = 0; i < count; i++)
        good += (size_t)is_header(&pairs[i]);
    if (good < count)
        warn(r, name, "is ignored: one of its headers cannot be sent");
    else
        r->out->headers = (config_pairs){pairs, count};
}

/* --- the sampler ------------------------------------------------------------------------------ */

int trace_ratio_read(double *out, const char *text)
{
    char *end = NULL;
    if (!*text || text[strspn(text, "0123456789.")])
        return 0;
    double value = strtod(text, &end);
    if (*end || value < 0 || value > 1)
        return 0;
    *out = value;
    return 1;
}

static double read_ratio(const reading *r, double otherwise)
{
    static const char name[] = "OTEL_TRACES_SAMPLER_ARG";
    const char *text = variable(r, name);
    double ratio = otherwise;
    if (text && !trace_ratio_read(&ratio, text))
        warn(r, name, "is ignored: a number from 0 to 1 is expected");
    return ratio;
}

static void read_sampler(const reading *r)
{
    static const char name[] = "OTEL_TRACES_SAMPLER", parent[] = "parentbased_";
    const char *text = variable(r, name);
    trace_sampler *out = &r->out->sampler;
    *out = (trace_sampler){.follows_parent = 1, .ratio = RATIO_DEFAULT};
    if (r->file->sample && trace_ratio_read(&out->ratio, r->file->sample))
        return;
    if (!text) {
        out->ratio = read_ratio(r, RATIO_DEFAULT);
        return;
    }
    int follows = strncmp(text, parent, strlen(parent)) == 0;
    const char *root = follows ? text + strlen(parent) : text;
    if (strcmp(root, "always_on") == 0)
        *out = (trace_sampler){follows, 1};
    else if (strcmp(root, "always_off") == 0)
        *out = (trace_sampler){follows, 0};
    else if (strcmp(root, "traceidratio") == 0)
        *out = (trace_sampler){follows, read_ratio(r, 1)};
    else
        warn(r, name, "is ignored: this sampler is not known");
}

int trace_sampler_takes(const trace_sampler *sampler, const trace_context *from, uint64_t low_half)
{
    if (sampler->follows_parent && from)
        return from->sampled;
    if (sampler->ratio >= 1)
        return 1;
    return (double)(low_half >> 1) < sampler->ratio * 9223372036854775808.0;
}

/* --- who sends them --------------------------------------------------------------------------- */

static void set_attribute(const reading *r, const char *name, const char *value)
{
    trace_settings *out = r->out;
    size_t i = 0;
    while (i < out->resource_count && strcmp(out->resource[i].name, name) != 0)
        i++;
    out->resource[i] = (span_attribute){name, value};
    out->resource_count += i == out->resource_count;
}

static void read_resource(const reading *r)
{
    enum { OWN = 8, HOST_MAX = 256 };
    char id[UNIQUE_ID_SIZE], host[HOST_MAX] = "";
    region *memory = &r->out->memory;
    config_pair pairs[PAIRS_MAX];
    const char *service = r->file->service ? r->file->service : variable(r, "OTEL_SERVICE_NAME");
    r->out->resource = region_alloc(memory, (PAIRS_MAX + OWN) * sizeof *r->out->resource);
    unique_id(id);
    (void)gethostname(host, sizeof host - 1);
    set_attribute(r, "service.name", "semel");
    set_attribute(r, "service.version", semel_version());
    set_attribute(r, "service.instance.id", region_copy(memory, id, strlen(id)));
    set_attribute(r, "host.name", region_copy(memory, host, strlen(host)));
    set_attribute(r, "telemetry.sdk.name", "semel");
    set_attribute(r, "telemetry.sdk.version", semel_version());
    size_t count = read_list(r, pairs, "OTEL_RESOURCE_ATTRIBUTES");
    for (size_t i = 0; i < count; i++)
        set_attribute(r, pairs[i].name, pairs[i].value);
    if (service)
        set_attribute(r, "service.name", region_copy(memory, service, strlen(service)));
}

/* --- all of it -------------------------------------------------------------------------------- */

static const char *either(const reading *r, const char *traces, const char *all)
{
    const char *value = variable(r, traces);
    return value ? value : variable(r, all);
}

static void read_transfer(const reading *r)
{
    trace_settings *out = r->out;
    static const char traces[] = "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT";
    const char *form =
        either(r, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
    const char *packed =
        either(r, "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION");
    const char *trusted =
        either(r, "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE");
    out->timeout_ms = number(r, variable(r, traces) ? traces : "OTEL_EXPORTER_OTLP_TIMEOUT", 1,
                             WAIT_MOST_MS, TIMEOUT_MS);
    out->certificate = trusted ? region_copy(&out->memory, trusted, strlen(trusted)) : NULL;
    if (form && strcmp(form, "http/json") != 0)
        warn(r, "OTEL_EXPORTER_OTLP_PROTOCOL", "is ignored: semel sends http/json");
    out->packs = packed && strcmp(packed, "gzip") == 0 && packed_is_possible();
    if (packed && !out->packs && strcmp(packed, "none") != 0)
        warn(r, "OTEL_EXPORTER_OTLP_COMPRESSION",
             packed_is_possible() ? "is ignored: semel compresses spans by gzip, or not at all"
                                  : "is ignored: this semel was built without zlib");
}

static void read_batches(const reading *r)
{
    trace_settings *out = r->out;
    out->queue_spans = number(r, "OTEL_BSP_MAX_QUEUE_SIZE", 1, QUEUE_MOST, QUEUE_SPANS);
    out->batch_spans = number(r, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1, QUEUE_MOST,
                              BATCH_SPANS < out->queue_spans ? BATCH_SPANS : out->queue_spans);
    if (out->batch_spans > out->queue_spans) {
        warn(r, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "is more than the queue holds");
        out->batch_spans = out->queue_spans;
    }
    out->delay_ms = number(r, "OTEL_BSP_SCHEDULE_DELAY", 1, WAIT_MOST_MS, DELAY_MS);
    out->export_ms = number(r, "OTEL_BSP_EXPORT_TIMEOUT", 1, WAIT_MOST_MS, EXPORT_MS);
}

void trace_settings_read(trace_settings *out, const tracing_config *file,
                         char *(*get)(const char *name))
{
    const reading r = {out, file, get};
    *out = (trace_settings){0};
    out->warnings = region_alloc(&out->memory, WARNINGS_MAX * sizeof *out->warnings);
    out->url = find_url(&r);
    if (!out->url) {
        if (is_off(&r))
            out->warning_count = 0;
        return;
    }
    read_headers(&r);
    read_transfer(&r);
    read_sampler(&r);
    read_batches(&r);
    read_resource(&r);
}

void trace_settings_free(trace_settings *all)
{
    region_free(&all->memory);
    *all = (trace_settings){0};
}
