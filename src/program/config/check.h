/* What is wrong across fields of a configuration that was read: names that do not exist, two
 * handlers, a retention that is too short, a guarantee that cannot be given. Nothing is opened but
 * a store in memory, which validates key expressions. */
#ifndef SEMEL_PROGRAM_CONFIG_CHECK_H
#define SEMEL_PROGRAM_CONFIG_CHECK_H

#include "program/config/diagnostic.h"
#include "program/config/options.h"

void config_check(const config *all, diagnostics *found);

/* check_url.c: what is wrong with the URLs, if the configuration has just been loaded: `found`
 * knows what was substituted. */
void config_check_urls(const config *all, diagnostics *found, int is_example);

/* --- for the parts of the check --------------------------------------------------------------- */

typedef struct checking {
    const config *all;
    diagnostics *found;
    int is_example; /* for the URLs: the file is a document */
} checking;

void check_keys(const checking *c);       /* check_key.c */
void check_retentions(const checking *c); /* check_retention.c */
void check_passwords(const checking *c);  /* check_password.c */
void check_tests(const checking *c);      /* check_test.c */
void check_tables(const checking *c);     /* check_table.c */
void check_tracing(const checking *c);    /* check_tracing.c */
void check_admin(const checking *c);      /* check_admin.c */
void check_gateway(const checking *c);    /* check_gateway.c */

/* Reports a name that is none of those: queue "order" does not exist; did you mean "orders"? */
void check_unknown(const checking *c, const char *kind, const char *name, place at,
                   const char *path);
/* ... if it is none; `node` holds the name. */
void check_queue_name(const checking *c, const config_node *node);
/* 1: letters, digits and . _ - (at most `most`) */
int check_is_name(const char *name, size_t most);

#endif
