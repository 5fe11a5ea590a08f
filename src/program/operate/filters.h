/* One grammar of filters for all commands: `semel help filters`. All that are given must match. */
#ifndef SEMEL_PROGRAM_OPERATE_FILTERS_H
#define SEMEL_PROGRAM_OPERATE_FILTERS_H

#include "program/operate/tool.h"

/* As they were typed. */
typedef struct filter_options {
    argument_list inboxes, outboxes, types; /* exact, or a prefix and * */
    const char *state, *outcome;
    const char *key; /* text, hex:, base64:, sha256:, text: */
    const char *error;
    const char *since, *until;
    const char *after;
    const char *cause;
    const char *up_to;
    uint32_t limit;
} filter_options;

/* For the table of a command; a command takes those that make sense for it. */
#define FILTER_INBOX(f)                            \
    {                                              \
        "--inbox", 0, ARGUMENT_LIST, &(f)->inboxes \
    }
#define FILTER_OUTBOX(f)                             \
    {                                                \
        "--outbox", 0, ARGUMENT_LIST, &(f)->outboxes \
    }
#define FILTER_TYPE(f)                          \
    {                                           \
        "--type", 0, ARGUMENT_LIST, &(f)->types \
    }
#define FILTER_STATE(f)                          \
    {                                            \
        "--state", 0, ARGUMENT_TEXT, &(f)->state \
    }
#define FILTER_OUTCOME(f)                            \
    {                                                \
        "--outcome", 0, ARGUMENT_TEXT, &(f)->outcome \
    }
#define FILTER_KEY(f)                        \
    {                                        \
        "--key", 0, ARGUMENT_TEXT, &(f)->key \
    }
#define FILTER_ERROR(f)                          \
    {                                            \
        "--error", 0, ARGUMENT_TEXT, &(f)->error \
    }
#define FILTER_SINCE(f)                          \
    {                                            \
        "--since", 0, ARGUMENT_TEXT, &(f)->since \
    }
#define FILTER_UNTIL(f)                          \
    {                                            \
        "--until", 0, ARGUMENT_TEXT, &(f)->until \
    }
#define FILTER_LIMIT(f)                           \
    {                                             \
        "--limit", 0, ARGUMENT_COUNT, &(f)->limit \
    }
#define FILTER_AFTER(f)                          \
    {                                            \
        "--after", 0, ARGUMENT_TEXT, &(f)->after \
    }
#define FILTER_CAUSE(f)                          \
    {                                            \
        "--cause", 0, ARGUMENT_TEXT, &(f)->cause \
    }
#define FILTER_UP_TO(f)                          \
    {                                            \
        "--up-to", 0, ARGUMENT_TEXT, &(f)->up_to \
    }

/* As they are compared. */
typedef struct filters {
    const filter_options *given;
    semel_marker_state state;
    buffer key; /* as it is stored (typed_key_stored); empty: any */
    int64_t since_ms, until_ms;
    int64_t after_id, last_id;
    uint32_t cause; /* as many digits as were typed: those of a shorter one are the last */
    uint32_t limit; /* 50 on a terminal, else UINT32_MAX, unless it was given */
} filters;

/* 0, or the exit status after saying what is wrong: "--since": "yesterday" is not a time; ... */
int filters_read(filters *out, const tool *t, const filter_options *given);
void filters_free(filters *f);

/* --after of a list that is ordered by numbers. What it means in other lists is theirs to read. */
int filters_read_after_id(filters *out, const tool *t);

/* 1 if the list is empty or one of its items matches: exactly, or by a prefix and *. */
int filters_match(const argument_list *list, const char *text);

/* 1 if a dead letter matches the members that the library does not filter by (patterns). */
int filters_match_letter(const filters *f, const semel_dead *letter);

/* The filter for semel_dead_list(), with everything that the library can filter by. */
semel_dead_filter filters_for_letters(const filters *f);

/* A time as a person types it: 2h (ago), 02:40 (today, or yesterday if that is still to come),
 * 2026-03-14, '2026-03-14 02:40', 2026-03-14T01:40:00Z. 0 if it is none. */
int filters_time(int64_t *out_ms, const char *text, int64_t now_ms, int utc);

/* The filters as they can be typed again, for the audit and for hints: --cause 7f3a --since 2h. */
void filters_text(buffer *to, const filter_options *given);

#endif
