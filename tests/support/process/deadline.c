/* See deadline.h. The kernel's alarm is not inherited by children, which have deadlines of their
 * own (process.h). */
#include "support/process/deadline.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEADLINE_S = 150 };

/* In a signal handler, so no printf. */
static void end_program(int signal_number)
{
    static const char text[] = "the test that runs has not come to its end in time\n";
    (void)signal_number;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(EXIT_FAILURE);
    abort();
}

void deadline_begin(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = end_program;
    (void)sigaction(SIGALRM, &action, NULL);
    (void)alarm(DEADLINE_S);
}

void deadline_end(void)
{
    (void)alarm(0);
}
