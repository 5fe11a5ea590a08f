/* The rows of the history as the SQL stores share them: the numbers of a row in one order, which is
 * that of HISTORY_NUMBERS in each statement.c, and what a row becomes when it is read. */
#ifndef SEMEL_STORE_SQL_HISTORY_H
#define SEMEL_STORE_SQL_HISTORY_H

#include <semel/sys/store.h>

enum { HISTORY_NUMBER_COUNT = 12 };

/* The columns of a list: id, the numbers, then these, then those of a message. */
enum {
    HISTORY_NAME = 1 + HISTORY_NUMBER_COUNT,
    HISTORY_KEY,
    HISTORY_PROCESS,
    HISTORY_ERROR,
    HISTORY_MESSAGE
};

void sql_history_numbers(int64_t out[HISTORY_NUMBER_COUNT], const semel_history *row);
void sql_history_set_numbers(semel_history *out, const int64_t in[HISTORY_NUMBER_COUNT]);

/* Adds the message, which was read with this outcome. */
semel_status sql_history_complete(semel_history *row, const semel_message *message,
                                  semel_status outcome, const semel_error *damage,
                                  semel_error *err);

/* By the index that leaves the fewest rows. */
typedef enum sql_history_way { HISTORY_BY_ID, HISTORY_BY_NAME, HISTORY_BY_KEY } sql_history_way;
sql_history_way sql_history_choose(const semel_history_filter *filter);

typedef struct sql_history_target {
    semel_history_visitor *visitor;
    void *context;
} sql_history_target;

/* The ids at both ends. */
typedef struct sql_history_bounds {
    int64_t first_id, last_id, first_ms;
} sql_history_bounds;

#endif
