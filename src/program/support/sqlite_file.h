/* A look at a file before SQLite opens it: opening it as a store would make it, or change its
 * journal mode. */
#ifndef SEMEL_PROGRAM_SUPPORT_SQLITE_FILE_H
#define SEMEL_PROGRAM_SUPPORT_SQLITE_FILE_H

typedef enum sqlite_file_kind {
    SQLITE_FILE_OTHER, /* it cannot be read, or is no database */
    SQLITE_FILE_FREE,  /* an empty file, or a database in another mode than WAL */
    SQLITE_FILE_IN_USE /* a database in WAL mode: a store is, or has been, kept in it */
} sqlite_file_kind;

sqlite_file_kind sqlite_file_look(const char *path);

#endif
