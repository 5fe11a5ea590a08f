/* What the SQL stores share when they look at their databases: findings that are gathered first and
 * shown when nothing of the store is in use any more, the rights that semel needs on its tables,
 * and what is said about versions and clocks. */
#ifndef SEMEL_STORE_SQL_INSPECT_H
#define SEMEL_STORE_SQL_INSPECT_H

#include "base/mem.h"
#include "store/sql/schema.h"

#include <semel/operate.h>

typedef struct sql_finding sql_finding;

/* Starts as {0}. */
typedef struct sql_findings {
    mem_arena arena;
    sql_finding *first, *last;
    int failed; /* memory ran out */
} sql_findings;

/* A finding; `fix` may be NULL. */
void sql_find(sql_findings *to, semel_severity severity, const char *subject, const char *fix,
              const char *format, ...) SEMEL_PRINTF(5, 6);

/* A text in the arena of the findings; "" if memory is out. */
const char *sql_find_text(sql_findings *to, const char *format, ...) SEMEL_PRINTF(2, 3);

/* Shows them all if `status` is SEMEL_OK, and frees them. */
semel_status sql_findings_show(sql_findings *all, semel_status status,
                               semel_finding_visitor *visitor, void *context, semel_error *err);

/* Whether these tables can be used: `status` and `why` are what reading their versions said. An
 * error that is not about the schema is returned. */
semel_status sql_find_schema(sql_findings *to, const sql_migration *steps,
                             const sql_versions *versions, semel_status status, semel_error *why,
                             semel_error *err);

/* The clock of this host against that of the store. */
void sql_find_clock(sql_findings *to, int64_t host_ms, int64_t store_ms);

/* The pool of this process against what the server allows; 0: no limit. */
void sql_find_connections(sql_findings *to, uint64_t pool, uint64_t allowed, const char *setting);

/* --- rights ----------------------------------------------------------------------------------- */

typedef enum sql_right { RIGHT_SELECT, RIGHT_INSERT, RIGHT_UPDATE, RIGHT_DELETE } sql_right;

extern const char *const sql_right_names[];

typedef struct sql_needed_right {
    const char *table;  /* without schema or prefix: "marker" */
    const char *column; /* one of it */
    sql_right right;
    semel_severity severity; /* of its absence */
    const char *otherwise;   /* "retention cannot run" */
    int mariadb_only;        /* those are the last ones */
} sql_needed_right;

/* Those that the program needs, for all that it does. The last one is followed by {0}. */
extern const sql_needed_right sql_needed_rights[];

#endif
