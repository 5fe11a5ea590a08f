/* A look at a file before SQLite opens it: opening it as a store would make it, or change its
 * journal mode. */
#ifndef SEMEL_PROGRAM_SUPPORT_SQLITE_FILE_H
#define SEMEL_PROGRAM_SUPPORT_SQLITE_FILE_H

/* 1 if the file is a database in WAL mode: one that a store is, or has been, kept in. */
int sqlite_file_is_in_use(const char *path);

#endif
