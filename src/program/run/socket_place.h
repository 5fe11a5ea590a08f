/* Where the socket of a running process is: in a directory that only its user can enter. */
#ifndef SEMEL_PROGRAM_RUN_SOCKET_PLACE_H
#define SEMEL_PROGRAM_RUN_SOCKET_PLACE_H

#include "program/support/memory.h"

#include <sys/un.h>

enum { SOCKET_PATH_SIZE = sizeof(((struct sockaddr_un *)0)->sun_path) };

/* The directories in which a process of this user puts its socket, the first choice first:
 * $XDG_RUNTIME_DIR/semel, $RUNTIME_DIRECTORY, /run/semel, /tmp/semel-UID. NULL behind the last. */
enum { SOCKET_DIRECTORIES_MAX = 5 };
size_t socket_directories(const char *out[SOCKET_DIRECTORIES_MAX], region *memory);

/* Makes a socket that listens, in the first directory that can be used, and removes there what
 * processes that were killed have left behind. The descriptor, or -1; `why` then says why. `name`
 * is unique. */
int socket_listen(char path[SOCKET_PATH_SIZE], const char *name, buffer *why);

/* Connects without waiting for long. The descriptor, or -1 and errno. */
int socket_connect(const char *path);

#endif
