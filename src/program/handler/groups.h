/* The process groups of all children, for the case in which the program ends without waiting
 * for its handlers: a second signal to stop. The kernel ends the children then, but not what
 * they have started. */
#ifndef SEMEL_PROGRAM_HANDLER_GROUPS_H
#define SEMEL_PROGRAM_HANDLER_GROUPS_H

#include <sys/types.h>

/* Around the start of a child, so that none is missed: pid is that of the child that leads a group
 * now; 0: none does. */
void groups_begin(void);
void groups_end(pid_t pid);

/* Before the child is reaped: from then on the number may be another group's. */
void groups_remove(pid_t pid);

/* SIGKILL to all of them. No child can be started or reaped afterwards: the caller ends the
 * process. */
void groups_kill(void);

#endif
