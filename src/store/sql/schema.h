/* The versions of a store's tables: the files in sql/NAME, embedded at build time
 * (cmake/EmbedSql.cmake). */
#ifndef SEMEL_STORE_SQL_SCHEMA_H
#define SEMEL_STORE_SQL_SCHEMA_H

#include <semel/operate.h>

/* One of a list, which counts from version 1 without a gap and ends with one of zeros. */
typedef struct sql_migration {
    int version;
    const char *name;   /* of the file, and of the row that says that the step was taken */
    const char *brings; /* what `semel migrate status` says about it */
    const char *locks;
    const char *sql;
} sql_migration;

/* The step that follows this version, 0 being none; NULL behind the last one. */
const sql_migration *sql_schema_next(const sql_migration *steps, int64_t version);

/* The version of the last step. */
int sql_schema_newest(const sql_migration *steps);

/* ESCHEMA if the tables are newer than the last step: going on would destroy. */
semel_status sql_schema_check_not_newer(const sql_migration *steps, int64_t version,
                                        semel_error *err);

/* ESCHEMA unless the tables are there, in the version of the last step. */
semel_status sql_schema_check(const sql_migration *steps, int64_t version, semel_error *err);

/* EINVAL unless there is a step of this version. */
semel_status sql_schema_check_target(const sql_migration *steps, int32_t version, semel_error *err);

/* --- the steps, for a tool -------------------------------------------------------------------- */

enum { SQL_STEPS_MAX = 64 };

/* What the store's database says: when each step was taken, by version; 0: not yet. */
typedef struct sql_applied {
    int64_t at_ms[SQL_STEPS_MAX + 1];
    char incomplete[SQL_STEPS_MAX + 1]; /* taken, and something of it is missing */
} sql_applied;

void sql_applied_note(sql_applied *all, int64_t version, int64_t at_ms);

enum { SQL_SCRIPT_PARTS = 2 };

typedef struct sql_script_part {
    const char *from;
    const char *to;
} sql_script_part;

/* A step as a script for a database administrator is this, the step, and that. In both, {} is the
 * name of the schema or the prefix, {version} and {name} those of the step. */
typedef struct sql_script_frame {
    const char *before;
    const char *after;
    const char *name;                        /* what {} stands for, here and in the steps */
    sql_script_part parts[SQL_SCRIPT_PARTS]; /* of steps that the client needs written otherwise */
} sql_script_frame;

/* Shows all steps. */
semel_status sql_schema_show(const sql_migration *steps, const sql_applied *applied,
                             const sql_script_frame *frame, semel_schema_visitor *visitor,
                             void *context, semel_error *err);

#endif
