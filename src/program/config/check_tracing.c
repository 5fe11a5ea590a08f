/* The section `tracing`: the collector has an address that libcurl can post to, the share of traces
 * is one, and the headers can be sent. */
#include "program/config/check.h"
#include "program/config/read.h"
#include "program/config/tree.h"
#include "program/handler/http_request.h"
#include "program/trace/settings.h"

#include <string.h>
#include <strings.h>

static const config_node *find(const checking *c, const char *name)
{
    const config_node *node = read_find(&section_tracing, tree_find(c->all->root, "tracing"),
                                        option_find(&section_tracing, name));
    return node && !node->is_unset ? node : NULL;
}

static const config_node *find_text(const checking *c, const char *name)
{
    const config_node *node = find(c, name);
    return node && node->kind == NODE_SCALAR ? node : NULL;
}

static void check_endpoint(const checking *c)
{
    const config_node *node = find_text(c, "endpoint");
    if (node && strncasecmp(node->text, "http://", 7) != 0 &&
        strncasecmp(node->text, "https://", 8) != 0)
        diagnostic_at(c->found, "url", node, "a URL of http:// or https:// is expected");
}

static void check_sample(const checking *c)
{
    double ratio;
    const config_node *node = find_text(c, "sample");
    if (!node || !node->len || trace_ratio_read(&ratio, node->text))
        return;
    diagnostic *d =
        diagnostic_at(c->found, "sample", node, "a share from 0 to 1 is expected, as 0.1");
    diagnostic_help(c->found, d, "0 begins no trace, 0.01 one of a hundred, 1 all");
}

static void check_headers(const checking *c)
{
    static const char other[] = "http: "; /* the text is one of handlers */
    semel_error why;
    const config_node *node = find(c, "headers");
    if (!node || !http_headers_check(&c->all->tracing.headers, &why))
        return;
    size_t from = strncmp(why.text, other, strlen(other)) == 0 ? strlen(other) : 0;
    diagnostic_at(c->found, "headers", node, "%s", why.text + from);
}

void check_tracing(const checking *c)
{
    check_endpoint(c);
    check_sample(c);
    check_headers(c);
}
