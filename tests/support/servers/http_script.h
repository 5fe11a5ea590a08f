/* A server of HTTP that answers as a test tells it, in threads of its process, on a free port of
 * the loopback. What no rule catches goes to a real server, or is answered with 404.
 *
 *     http_script *s = http_script_open(port of the emulator);
 *     http_script_answer(s, "PutItem", 3, 400, "{\"__type\":\"ThrottlingException\"}");
 *     ... the next three requests that have "PutItem" in them ...
 *
 * All functions may be called from any thread. They abort when they cannot. */
#ifndef SEMEL_TESTS_HTTP_SCRIPT_H
#define SEMEL_TESTS_HTTP_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

typedef struct http_script http_script;

http_script *http_script_open(unsigned upstream_port); /* 0: none */
void http_script_close(http_script *s);
unsigned http_script_port(const http_script *s);

/* Rules are tried in the order in which they were made; each is for so many requests with this text
 * in their first line, headers or body. */
void http_script_answer(http_script *s, const char *pattern, unsigned times, int status,
                        const char *body);
/* The same, with this header ("Date: ..."), in place of the usual one if it is a Date. */
void http_script_answer_with(http_script *s, const char *pattern, unsigned times, int status,
                             const char *body, const char *header);
/* The request is carried out, and its answer is lost; or it does not arrive. Then the connection
 * ends. */
void http_script_lose_answer(http_script *s, const char *pattern, unsigned times);
void http_script_lose_request(http_script *s, const char *pattern, unsigned times);
void http_script_forget(http_script *s); /* all rules */

/* Requests with this text so far, and the last one of them. */
unsigned http_script_count(http_script *s, const char *pattern);
void http_script_last(http_script *s, const char *pattern, char *out, size_t room);

#endif
