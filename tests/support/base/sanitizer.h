/* Sanitizers make everything slower, so a test that repeats itself does so SANITIZER_SLOWDOWN times
 * less often. */
#ifndef SEMEL_TESTS_SANITIZER_H
#define SEMEL_TESTS_SANITIZER_H

#if defined(__SANITIZE_THREAD__)
#define SANITIZER_SLOWDOWN 4
#elif defined(__SANITIZE_ADDRESS__)
#define SANITIZER_SLOWDOWN 2
#elif defined(__has_feature) /* clang's way of saying it */
#if __has_feature(thread_sanitizer)
#define SANITIZER_SLOWDOWN 4
#elif __has_feature(address_sanitizer)
#define SANITIZER_SLOWDOWN 2
#endif
#endif
#ifndef SANITIZER_SLOWDOWN
#define SANITIZER_SLOWDOWN 1
#endif

/* A child that was forked beside a thread that allocates hung once in 17 runs under the address
 * sanitizer, once in some dozens under the thread sanitizer, and never without them. The probable
 * cause is a lock of the sanitizer's own, which the child inherits locked; no stack has proved
 * that. */
#define SANITIZER_FORK_IS_UNSAFE (SANITIZER_SLOWDOWN > 1)

#endif
