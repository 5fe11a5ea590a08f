/* The versions of a store's tables: the files in sql/NAME, embedded at build time
 * (cmake/EmbedSql.cmake). */
#ifndef SEMEL_STORE_SQL_SCHEMA_H
#define SEMEL_STORE_SQL_SCHEMA_H

#include <semel/operate.h>

/* One of a list, which counts from version 1 without a gap and ends with one of zeros. */
typedef struct sql_migration {
    int version;
    int needs;          /* the least version that a program must know to use the tables behind it */
    const char *name;   /* of the file, and of the row that says that the step was taken */
    const char *brings; /* what `semel migrate status` says about it */
    const char *locks;
    const char *sql;
} sql_migration;

/* The step that follows this version, 0 being none; NULL behind the last one. */
const sql_migration *sql_schema_next(const sql_migration *steps, int64_t version);

/* The version of the last step. */
int sql_schema_newest(const sql_migration *steps);

/* What the database says about its tables; both are 0 if there are none. */
typedef struct sql_versions {
    int64_t version;
    int64_t needs; /* the least version that a program must know to use them */
} sql_versions;

/* Each step that was taken: version, applied_ms, needs (0: it says nothing), name. The column
 * `needs` is there from step 6 on. Until then the name in the inner query is that of the outer one,
 * where it is 0: so one statement serves both. */
#define SQL_SCHEMA_STEPS(table)                                                                \
    "SELECT s.version, s.applied_ms, coalesce((SELECT needs FROM " table " t "                 \
    "WHERE t.version = s.version), 0) AS needs, s.name FROM " table " s, (SELECT 0 AS needs) " \
    "AS undeclared"

/* The two, and two more columns that other tables of this name would not have. A step that says
 * nothing needs itself. */
#define SQL_SCHEMA_VERSIONS(table)                                                              \
    "SELECT coalesce(max(version), 0), coalesce(max(coalesce(nullif(needs, 0), version)), 0), " \
    "max(name), max(applied_ms) FROM (" SQL_SCHEMA_STEPS(table) ") AS steps"

/* The first step that is recorded with what it needs. */
enum { SQL_NEEDS_VERSION = 6 };

/* ESCHEMA if the tables need programs that know more than the last step: going on would destroy.
 * Newer tables that do not are fine. */
semel_status sql_schema_check_usable(const sql_migration *steps, const sql_versions *found,
                                     semel_error *err);

/* ESCHEMA unless the tables are there, usable, and at least of the version of the last step. */
semel_status sql_schema_check(const sql_migration *steps, const sql_versions *found,
                              semel_error *err);

/* EINVAL unless there is a step of this version. */
semel_status sql_schema_check_target(const sql_migration *steps, int32_t version, semel_error *err);

/* --- the steps, for a tool -------------------------------------------------------------------- */

enum { SQL_STEPS_MAX = 64 };

typedef struct sql_applied_step {
    int64_t at_ms; /* 0: it was not taken yet */
    char name[64]; /* a longer one is cut */
    int64_t needs;
} sql_applied_step;

/* What the store's database says, by version. Starts as {0}. */
typedef struct sql_applied {
    sql_applied_step steps[SQL_STEPS_MAX + 1];
    sql_versions found;
    char incomplete[SQL_STEPS_MAX + 1]; /* taken, and something of it is missing */
} sql_applied;

/* A row of SQL_SCHEMA_STEPS. */
void sql_applied_note(sql_applied *all, int64_t version, int64_t at_ms, int64_t needs,
                      const char *name);

enum { SQL_SCRIPT_PARTS = 2 };

typedef struct sql_script_part {
    const char *from;
    const char *to;
} sql_script_part;

/* A step as a script for a database administrator is `before`, the step, `record`, `needs` if the
 * step is recorded with what it needs, and `after`. In these {} is the name of the schema or the
 * prefix, and {version}, {name} and {needs} are those of the step. */
typedef struct sql_script_frame {
    const char *before;
    const char *record;
    const char *needs;
    const char *after;
    const char *name;                        /* what {} stands for, here and in the steps */
    sql_script_part parts[SQL_SCRIPT_PARTS]; /* of steps that the client needs written otherwise */
} sql_script_frame;

/* Shows all steps, and behind them those that only the database knows. */
semel_status sql_schema_show(const sql_migration *steps, const sql_applied *applied,
                             const sql_script_frame *frame, semel_schema_visitor *visitor,
                             void *context, semel_error *err);

#endif
