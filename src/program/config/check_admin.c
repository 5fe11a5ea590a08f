/* The section `admin`: where it listens, and who can reach it there. Whoever reaches the page can
 * read messages; a token is what keeps others than its owner from changing something. */
#include "program/config/check.h"
#include "program/config/tree.h"
#include "program/http/server.h"

#include <string.h>

/* Of the section, or of the value that stands for it: `admin: 127.0.0.1:8481`. */
static const config_node *listen_node(const checking *c)
{
    const config_node *whole = tree_find(c->all->root, "admin");
    const config_node *listen =
        whole && whole->kind == NODE_MAP ? tree_find(whole, "listen") : NULL;
    return listen ? listen : whole;
}

static void report_open(const checking *c, const config_node *node, const char *listen,
                        const char *to_whom)
{
    diagnostic *d = diagnostic_add(c->found, LEVEL_ERROR, "admin-open", node->at, "admin.listen",
                                   "%s is open to %s, but admin.token is not set", listen, to_whom);
    diagnostic_help(c->found, d,
                    "listen on 127.0.0.1 or unix:PATH, or set admin.token to ${file:admin.token}");
}

void check_admin(const checking *c)
{
    const admin_config *admin = &c->all->admin;
    const config_node *node = listen_node(c);
    if (!admin->listen || !node)
        return;
    switch (http_reach_of(admin->listen)) {
    case HTTP_REACH_NONE:
        diagnostic_add(c->found, LEVEL_ERROR, "address", node->at, "admin.listen",
                       "\"%s\" is no address to listen on; write 127.0.0.1:8481, [::1]:8481 or "
                       "unix:PATH",
                       admin->listen);
        break;
    case HTTP_REACH_NETWORK:
        if (!admin->token)
            report_open(c, node, admin->listen, "other hosts");
        break;
    case HTTP_REACH_EVERYONE:
        if (!admin->token)
            report_open(c, node, admin->listen, "every network");
        break;
    default:
        break;
    }
}
