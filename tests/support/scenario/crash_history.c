/* The workflows of crash.h about what a relay has sent: each message that has left has one row, and
 * old rows go. */
#include "support/scenario/crash.h"

#include "support/process/process.h"

#include <stdio.h>
#include <string.h>

#define REQUIRE(condition)  PROCESS_REQUIRE(condition)
#define REQUIRE_OK(w, call) PROCESS_REQUIRE_OK(call, &(w)->err)

static void send_some(crash_world *w)
{
    for (int i = 1; i <= CRASH_HISTORY_MESSAGES; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "%d", i);
        crash_send(w, key, "out", i % 2 ? "group" : NULL);
    }
    crash_drain(w);
}

typedef struct history {
    int rows;
    char ids[CRASH_HISTORY_MESSAGES][CRASH_TEXT];
} history;

static semel_status keep_row(const semel_outgoing *sent, void *context, semel_error *err)
{
    history *all = context;
    REQUIRE(all->rows < CRASH_HISTORY_MESSAGES && sent->message->id.len < CRASH_TEXT);
    char *id = all->ids[all->rows];
    memcpy(id, sent->message->id.data, sent->message->id.len);
    for (int i = 0; i < all->rows; i++)
        REQUIRE(strcmp(all->ids[i], id) != 0);
    all->rows++;
    (void)err;
    return SEMEL_OK;
}

static int count_rows(crash_world *w)
{
    history all = {.rows = 0};
    REQUIRE_OK(w, semel_outbox_list_sent(w->outbox, NULL, keep_row, &all, &w->err));
    return all.rows;
}

/* A message that a second process has to send again has one row nevertheless. */
void crash_run_history(crash_world *w)
{
    send_some(w);
    REQUIRE(count_rows(w) == CRASH_HISTORY_MESSAGES);
}

/* When the first process begins, the rows are old. */
void crash_prepare_forgetting(crash_world *w)
{
    semel_test_advance_ms(w->base.seam, -w->flow->start_ms);
    send_some(w);
    crash_world_pass_ms(w, w->flow->start_ms);
}

void crash_run_forgetting(crash_world *w)
{
    size_t sent;
    REQUIRE_OK(w, semel_relay_step(&sent, w->relay, 0, &w->err));
    REQUIRE(count_rows(w) == 0);
}
