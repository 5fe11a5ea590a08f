/* Calls that must succeed, and calls that must fail in a certain way. Give them &last_error:
 *
 *     OK(semel_store_open(&store, url, NULL, &last_error));
 *     FAILS(SEMEL_ESCHEMA, semel_inbox_open(&inbox, store, "orders", NULL, &last_error));
 *
 * If it comes out otherwise the test ends there, and shows the error's text. A failure must also
 * have filled last_error: that is part of every contract. For the main thread only, as all of
 * cmocka. In a child (process.h) the process ends in place of the test. */
#ifndef SEMEL_TESTS_CHECK_H
#define SEMEL_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above. */
#include <cmocka.h>
#include <semel/semel.h>

extern semel_error last_error;

#define OK(call) FAILS(SEMEL_OK, call)
#define FAILS(status, call) \
    check_status((status), (check_forget(), (call)), #call, __FILE__, __LINE__)

/* Is `part` in the text of the last error? */
#define SAYS(part) check_text((part), __FILE__, __LINE__)

#define BYTES_EQUAL(one, other) check_bytes((one), (other), __FILE__, __LINE__)

/* All that a message says, but for the two numbers that belong to a delivery. */
#define MESSAGE_EQUAL(one, other) check_message((one), (other), __FILE__, __LINE__)

/* `got` is `sent` with SEMEL_HEADER_DUE as its last header. */
#define MESSAGE_EQUAL_BUT_DUE(sent, got) check_due_message((sent), (got), __FILE__, __LINE__)

void check_forget(void);
void check_status(semel_status expected, semel_status status, const char *call, const char *file,
                  int line);
void check_text(const char *part, const char *file, int line);
void check_bytes(semel_bytes expected, semel_bytes actual, const char *file, int line);
void check_message(const semel_message *expected, const semel_message *actual, const char *file,
                   int line);
void check_due_message(const semel_message *sent, const semel_message *got, const char *file,
                       int line);

#endif
