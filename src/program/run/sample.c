/* See sample.h. The members of the sample body are those that key and statements of the inbox read:
 * what stands behind json:/ and :json/ up to the first character that is no letter, digit or
 * underscore. */
#include "program/run/sample.h"

#include <ctype.h>
#include <string.h>

enum { MEMBERS_MAX = 8 };

void sample_url(buffer *to, const char *url)
{
    const char *authority = strstr(url, "://");
    if (!authority) {
        buffer_add(to, url, strcspn(url, "?"));
        return;
    }
    const char *rest = authority + 3;
    size_t len = strcspn(rest, "?#"), place = strcspn(rest, "/?#");
    for (size_t i = 0; i < place; i++)
        if (rest[i] == '@') {
            rest += i + 1;
            len -= i + 1;
            place -= i + 1;
            i = (size_t)-1;
        }
    buffer_add(to, url, (size_t)(authority - url));
    buffer_text(to, " ");
    buffer_add(to, rest, len);
}

typedef struct members {
    struct {
        const char *name;
        size_t len;
    } items[MEMBERS_MAX];
    size_t count;
} members;

static void add_member(members *m, const char *name, size_t len)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->items[i].len == len && memcmp(m->items[i].name, name, len) == 0)
            return;
    if (len && m->count < MEMBERS_MAX) {
        m->items[m->count].name = name;
        m->items[m->count++].len = len;
    }
}

static size_t name_length(const char *at)
{
    size_t len = 0;
    while (isalnum((unsigned char)at[len]) || at[len] == '_')
        len++;
    return at[len] == '/' ? 0 : len; /* a pointer into depth is not sampled */
}

static void find_members(members *m, const char *text, const char *prefix)
{
    const char *at = text ? strstr(text, prefix) : NULL;
    for (; at; at = strstr(at, prefix)) {
        at += strlen(prefix);
        add_member(m, at, name_length(at));
    }
}

static void add_body(buffer *to, const members *m)
{
    static const int values[] = {1042, 1250};
    buffer_text(to, "'{");
    for (size_t i = 0; i < m->count; i++)
        buffer_printf(to, "%s\"%.*s\": %d", i ? ", " : "", (int)m->items[i].len, m->items[i].name,
                      i < 2 ? values[i] : (int)i);
    buffer_text(to, "}'");
}

const inbox_config *sample_inbox(const config *all)
{
    for (size_t i = 0; i < all->inbox_count; i++)
        if (all->inboxes[i].from)
            return &all->inboxes[i];
    return NULL;
}

void sample_publish(buffer *to, const config *all)
{
    const inbox_config *inbox = sample_inbox(all);
    members m = {.count = 0};
    find_members(&m, inbox->options.key, "json:/");
    for (size_t i = 0; i < inbox->sql.count; i++)
        find_members(&m, inbox->sql.items[i], ":json/");
    buffer_printf(to, "semel publish %s", inbox->from);
    if (inbox->types.count && !strchr(inbox->types.items[0], '*'))
        buffer_printf(to, " --type %s", inbox->types.items[0]);
    buffer_text(to, " --copies 2 ");
    if (m.count)
        add_body(to, &m);
    else
        buffer_text(to, "hello");
}
