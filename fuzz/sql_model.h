/* What a queued statement should become, said a second time and in another way than
 * src/store/sql/sql.c does: character by character, from the manuals of the databases. */
#ifndef SEMEL_FUZZ_SQL_MODEL_H
#define SEMEL_FUZZ_SQL_MODEL_H

#include "base/text.h"
#include "store/sql/sql.h"

typedef struct sql_model {
    text_buffer text; /* with a NUL behind; to be freed */
    size_t marks;
    int ended; /* no quote or comment was open at the end */
} sql_model;

/* What is written in the place of mark number `index`, counted from 0. */
typedef void sql_filler(text_buffer *to, size_t index, void *context);

/* `fill` may be NULL: marks become what sql_translate() makes of them. Only for statements that it
 * accepts. */
void sql_model_run(sql_model *out, sql_dialect dialect, const char *sql, sql_filler *fill,
                   void *context);

#endif
