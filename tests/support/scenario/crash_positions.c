/* A workflow of crash.h: runs of one partition into an inbox that remembers positions, with a
 * message that fails once and one that is put aside. */
#include "support/scenario/crash.h"

#include "support/process/process.h"

enum { MESSAGES = 5, CALLS_MAX = 30 };

/* From `at` on: where the decided ones end. */
static size_t receive_from(crash_world *w, size_t at)
{
    static const char *const keys[MESSAGES] = {"one", "fail-two", "three", "poison", "five"};
    semel_message messages[MESSAGES];
    const semel_message *list[MESSAGES];
    int64_t positions[MESSAGES];
    semel_outcome outcomes[MESSAGES];
    for (size_t i = at; i < MESSAGES; i++) {
        messages[i] = crash_message(keys[i]);
        list[i] = &messages[i];
        positions[i] = (int64_t)i;
    }
    const semel_run run = {.size = sizeof run,
                           .partition = "log/0",
                           .origin = "one",
                           .positions = positions + at,
                           .messages = list + at,
                           .count = MESSAGES - at};
    PROCESS_REQUIRE_OK(
        semel_inbox_receive_run(outcomes + at, w->inbox, &run, crash_handler, w, &w->err), &w->err);
    while (at < MESSAGES && semel_outcome_settled(outcomes[at]))
        at++;
    return at;
}

void crash_run_positions(crash_world *w)
{
    size_t at = 0;
    for (int calls = 0; at < MESSAGES; calls++) {
        PROCESS_REQUIRE(calls < CALLS_MAX);
        at = receive_from(w, at);
    }
}
