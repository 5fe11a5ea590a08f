/* See exposition.h. */
#include "program/admin/exposition.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *suffix_of(metric_type type)
{
    return type == METRIC_COUNTER ? "_total" : type == METRIC_INFO ? "_info" : "";
}

/* Prometheus has no infos: there it is a gauge. */
static const char *type_name(const exposition *e, metric_type type)
{
    switch (type) {
    case METRIC_COUNTER:
        return "counter";
    case METRIC_HISTOGRAM:
        return "histogram";
    case METRIC_INFO:
        return e->is_open_metrics ? "info" : "gauge";
    default:
        return "gauge";
    }
}

void exposition_family(exposition *e, const char *name, metric_type type, const char *unit,
                       const char *help)
{
    const char *suffix = suffix_of(type), *heading = e->is_open_metrics ? "" : suffix;
    e->family = name;
    e->suffix = suffix;
    buffer_printf(e->to, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, heading, help, name, heading,
                  type_name(e, type));
    if (unit && e->is_open_metrics)
        buffer_printf(e->to, "# UNIT %s %s\n", name, unit);
}

/* --- samples ---------------------------------------------------------------------------------- */

static void add_escaped(buffer *to, const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            buffer_text(to, "\\n");
        else if (*text == '"' || *text == '\\')
            buffer_printf(to, "\\%c", *text);
        else
            buffer_add(to, text, 1);
}

static void add_label(buffer *to, const char *comma, const char *name, const char *value)
{
    buffer_printf(to, "%s%s=\"", comma, name);
    add_escaped(to, value);
    buffer_text(to, "\"");
}

static void add_name(exposition *e, const char *suffix, const metric_label *labels, const char *le)
{
    const char *comma = "{";
    buffer_printf(e->to, "%s%s", e->family, suffix);
    for (; labels && labels->name; labels++, comma = ",")
        add_label(e->to, comma, labels->name, labels->value);
    if (le) {
        add_label(e->to, comma, "le", le);
        comma = ",";
    }
    buffer_text(e->to, *comma == ',' ? "} " : " ");
}

void exposition_count(exposition *e, const metric_label *labels, uint64_t value)
{
    add_name(e, e->suffix, labels, NULL);
    buffer_printf(e->to, "%llu\n", (unsigned long long)value);
}

void exposition_seconds(exposition *e, const metric_label *labels, double value)
{
    add_name(e, e->suffix, labels, NULL);
    buffer_printf(e->to, "%.6f\n", value);
}

void exposition_buckets(exposition *e, const metric_label *labels, const buckets_seen *seen)
{
    unsigned long long below = 0;
    for (size_t i = 0; i < BUCKETS_COUNT; i++) {
        below += seen->counts[i];
        add_name(e, "_bucket", labels, buckets_label(i));
        buffer_printf(e->to, "%llu\n", below);
    }
    add_name(e, "_sum", labels, NULL);
    buffer_printf(e->to, "%.9f\n", (double)seen->sum_ns / 1e9);
    add_name(e, "_count", labels, NULL);
    buffer_printf(e->to, "%llu\n", below);
}

void exposition_end(exposition *e)
{
    if (e->is_open_metrics)
        buffer_text(e->to, "# EOF\n");
}

/* --- negotiation ------------------------------------------------------------------------------ */

/* One of the list: "application/openmetrics-text;version=1.0.0;q=0.5". Returns its weight if it is
 * of the type, else 0. */
static double weight_of(const char *entry, size_t len, const char *type)
{
    size_t type_len = strlen(type);
    double weight = 1;
    if (len < type_len || strncasecmp(entry, type, type_len) != 0 ||
        (len > type_len && !strchr("; \t", entry[type_len])))
        return 0;
    for (const char *at = entry; (at = memchr(at, ';', len - (size_t)(at - entry)));) {
        at++;
        while (at < entry + len && (*at == ' ' || *at == '\t'))
            at++;
        if (at + 1 < entry + len && (*at | 0x20) == 'q' && at[1] == '=')
            weight = strtod(at + 2, NULL);
        if (at + 10 < entry + len && strncasecmp(at, "version=", 8) == 0 && at[8] == '0' &&
            strcmp(type, "text/plain") != 0)
            weight = 0; /* a draft of OpenMetrics */
    }
    return weight;
}

int exposition_wants_open_metrics(const char *accept)
{
    double open = 0, plain = 0;
    while (accept && *accept) {
        accept += strspn(accept, ", \t");
        size_t len = strcspn(accept, ",");
        double one = weight_of(accept, len, "application/openmetrics-text");
        open = one > open ? one : open;
        one = weight_of(accept, len, "text/plain");
        plain = one > plain ? one : plain;
        accept += len;
    }
    return open > 0 && open >= plain;
}

const char *exposition_content_type(int is_open_metrics)
{
    return is_open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                           : "text/plain; version=0.0.4; charset=utf-8";
}
