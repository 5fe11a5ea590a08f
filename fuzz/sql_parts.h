/* The part of the target for SQL that needs MariaDB's code. */
#ifndef SEMEL_FUZZ_SQL_PARTS_H
#define SEMEL_FUZZ_SQL_PARTS_H

/* `accepted`: the number of values with which sql_translate() takes it, or -1. */
#ifdef SEMEL_WITH_MARIADB
void check_mariadb_queue(const char *sql, long accepted);
#else
static inline void check_mariadb_queue(const char *sql, long accepted)
{
    (void)sql;
    (void)accepted;
}
#endif

#endif
