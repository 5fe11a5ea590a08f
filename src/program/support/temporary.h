/* A temporary directory, removed with all that is in it. */
#ifndef SEMEL_PROGRAM_SUPPORT_TEMPORARY_H
#define SEMEL_PROGRAM_SUPPORT_TEMPORARY_H

/* Under $TMPDIR or /tmp, for this user only. NULL, and errno, if it cannot be made; the caller
 * frees the path with temporary_remove(). */
char *temporary_directory(void);
void temporary_remove(char *path);

#endif
