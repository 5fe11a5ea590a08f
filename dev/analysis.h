/* Put before every file that clang-tidy reads (dev/check), and never compiled. The analyzer sees
 * one file at a time, so it must be told that failing fails: else it takes every output as possibly
 * unset. */
#include <semel/error.h>

#define semel_fail(err, status, ...) ((void)semel_fail(err, status, __VA_ARGS__), (status))
