/* Other programs for tests, such as a client that is not ours. */
#ifndef SEMEL_TESTS_SHELL_H
#define SEMEL_TESTS_SHELL_H

#include <stddef.h>

/* Runs a command of the shell. It must succeed; what it says, up to `room`, is in `said`. */
void shell_run(char *said, size_t room, const char *command);

#endif
