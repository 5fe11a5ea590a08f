/* SQL texts: names that become identifiers, our own statements with the names filled in, and the
 * application's queued statements.
 *
 * Names cannot be bound as parameters, and quoting alone has had holes; so a name is checked
 * against a small alphabet first (sql_check_name) and quoted then. */
#ifndef SEMEL_STORE_SQL_SQL_H
#define SEMEL_STORE_SQL_SQL_H

#include "base/mem.h"

#include <semel/statement.h>

enum { SQL_NAME_MAX = 48 };

/* A schema, prefix or the like: a small letter or _, then small letters, digits and _, at most
 * SQL_NAME_MAX of them. EINVAL names `what` (as in "URL: schema") and the first character that is
 * wrong. */
semel_status sql_check_name(const char *what, const char *name, semel_error *err);

/* A copy of `text` with every "{}" replaced by `name`; in the arena. NULL if memory is out. */
const char *sql_fill(mem_arena *arena, const char *text, const char *name);

typedef enum sql_dialect { SQL_SQLITE = 1, SQL_POSTGRES, SQL_MARIADB } sql_dialect;

/* The application's statement as the database wants it: each ? that stands for a value becomes $1,
 * $2 ... for PostgreSQL and stays ? for the others, where values are bound (SQLite) or written in
 * its place (MariaDB): with a space beside it, where these would run into their neighbours. ??
 * becomes a question mark for PostgreSQL, where operators have it; what is inside quotes of any
 * kind of the dialect ('', "", ``, [], E'', $tag$) and comments is left alone. What follows the
 * statement (a ; and comments) is left out. Into the arena. EINVAL, with the position: the number
 * of marks is not `values`, there are marks of the database's own ($1, ?1, :name) or ?? where no
 * operator has it, a quote or comment does not end, there is more than one statement (a ; with
 * something behind it), there is none, or it begins with words that end or begin transactions or
 * take over the connection (BEGIN, COMMIT, SAVEPOINT, SET TRANSACTION ... as the dialect has them:
 * in MariaDB also whatever commits by the way): that is semel's to do.
 * ELIMIT: SEMEL_SQL_MAX, SEMEL_VALUES_MAX.
 *
 * For PostgreSQL, standard_conforming_strings must be on; for MariaDB, ANSI_QUOTES and
 * NO_BACKSLASH_ESCAPES must be off. The character set is UTF-8. */
semel_status sql_translate(const char **out, mem_arena *arena, sql_dialect dialect, const char *sql,
                           size_t values, semel_error *err);

/* As sql_translate(), and tells in *position, which may be NULL, at which byte of the text it went
 * wrong, counted from 1. */
semel_status sql_translate_at(const char **out, mem_arena *arena, sql_dialect dialect,
                              const char *sql, size_t values, size_t *position, semel_error *err);

/* As sql_translate(), for a statement without values outside of a unit: it may be one that commits
 * by the way, such as CREATE TABLE in MariaDB. */
semel_status sql_translate_alone(const char **out, mem_arena *arena, sql_dialect dialect,
                                 const char *sql, semel_error *err);

/* The byte of the application's text, from 1 on, that became byte `translated`, from 0 on, of its
 * translation; 0 if that is not known. */
size_t sql_position(mem_arena *arena, sql_dialect dialect, const char *sql, size_t values,
                    size_t translated);

/* 1 if the statement is surely one that reads or changes rows and no more (INSERT, UPDATE, DELETE,
 * REPLACE, MERGE, SELECT, WITH, VALUES): it cannot commit by itself, as a procedure can that is
 * called outside of a transaction. */
int sql_only_changes_rows(const char *sql);

/* How many bytes of a statement an error may show to say which one it is: its beginning, up to the
 * first quote, mark, bracket or comparison, behind which values may stand. */
size_t sql_head(const char *sql);

/* 1 if a comment begins here that goes to the end of the line. MariaDB wants a space or a control
 * character behind the dashes: a--1 is arithmetic there. */
int sql_is_line_comment(sql_dialect dialect, const char *at);

#endif
