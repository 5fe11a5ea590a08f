/* The page of `semel top`: lines for a terminal or a pipe. */
#ifndef SEMEL_PROGRAM_WATCH_TOP_PAGE_H
#define SEMEL_PROGRAM_WATCH_TOP_PAGE_H

#include "program/watch/history.h"

typedef enum top_order {
    TOP_BY_CONFIG = 0, /* as in the configuration */
    TOP_BY_RATE,
    TOP_BY_FAILURES,
    TOP_BY_DEAD,
    TOP_ORDERS
} top_order;

typedef struct top_page {
    const tool *tool;
    const history *history;
    const char *filter; /* a part of the names of inboxes; "" for all */
    top_order order;
    int is_paused;
    size_t columns; /* of the terminal */
} top_page;

void top_page_write(buffer *to, const top_page *page);
const char *top_order_name(top_order order);

/* Groups of dead letters, as `semel dead groups` shows them; asks the store. */
void top_page_groups(buffer *to, tool *t);

#endif
