/* Sanitizers make everything slower, so a test that repeats itself does so SLOWER times less often. */
#ifndef SEMEL_TESTS_SANITIZER_H
#define SEMEL_TESTS_SANITIZER_H

#if defined(__SANITIZE_THREAD__)
#define SLOWER 4
#elif defined(__SANITIZE_ADDRESS__)
#define SLOWER 2
#elif defined(__has_feature) /* clang's way of saying it */
#if __has_feature(thread_sanitizer)
#define SLOWER 4
#elif __has_feature(address_sanitizer)
#define SLOWER 2
#endif
#endif
#ifndef SLOWER
#define SLOWER 1
#endif

#endif
