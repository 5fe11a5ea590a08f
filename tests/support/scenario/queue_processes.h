/* Several processes on one queue in a store, at any URL: in the order of each group, and killed
 * (SIGKILL). They fail the test that calls them. */
#ifndef SEMEL_TESTS_QUEUE_PROCESSES_H
#define SEMEL_TESTS_QUEUE_PROCESSES_H

/* Consumers side by side receive each message once, and each group in its order, by one of them at
 * a time. */
void queue_processes_keep_the_order(const char *store_url);

/* A publisher is killed at any moment, a consumer between receive and settle. What was confirmed is
 * received; of what was not, all of a call or nothing. */
void queue_processes_are_killed(const char *store_url);

#endif
