/* Children for tests: to be killed, stopped, raced against each other.
 *
 * A child runs one function and leaves by _exit with what it returns, so nothing of the parent's
 * (buffers, cmocka, leak checks) happens twice. No store may be open in the parent when it
 * forks. */
#ifndef SEMEL_TESTS_PROCESS_H
#define SEMEL_TESTS_PROCESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef int process_body(void *context);

enum {
    PROCESS_OK = 0,
    PROCESS_REQUIRED = 70, /* a PROCESS_REQUIRE in it failed, and said so on stderr */
    PROCESS_LATE = 300,    /* it did not end in time and was killed */
    PROCESS_KILLED = 1000  /* + the signal that ended it */
};

pid_t process_start(process_body *body, void *context);

/* Its end: the exit status, PROCESS_KILLED + signal, or PROCESS_LATE. */
int process_wait(pid_t pid, uint32_t deadline_ms);

/* Both. */
int process_run(process_body *body, void *context);

/* Until a child has stopped (SIGSTOP); 0 if it ended or the time is over. */
int process_wait_stopped(pid_t pid, uint32_t deadline_ms);

/* Inside a child, in place of cmocka's assertions, which belong to the parent. The checks of
 * check.h end a child in the same way. */
int process_is_child(void);
#define PROCESS_REQUIRE(condition) \
    ((condition) ? (void)0 : process_give_up(__FILE__, __LINE__, #condition))
#define PROCESS_REQUIRE_OK(call, err) \
    ((call) == 0 ? (void)0 : process_give_up(__FILE__, __LINE__, (err)->text))
_Noreturn void process_give_up(const char *file, int line, const char *what);

/* Memory that parent and children share, zeroed. */
void *process_share(size_t size);
void process_unshare(void *memory, size_t size);

/* Milliseconds since some moment, for deadlines; and a short rest between two looks at a
 * condition. */
int64_t process_now_ms(void);
int64_t process_wall_ms(void); /* since 1970, as messages are dated */
/* Until a thread of this process sleeps, as in a wait; 0 if it did not in time. The first thread's
 * number is getpid(). */
int process_wait_asleep(pid_t thread, uint32_t deadline_ms);

void process_nap(void);

#endif
