/* What the parts of `semel dead` share: what was typed, the letters that it names, and the words
 * for them. */
#ifndef SEMEL_PROGRAM_OPERATE_DEAD_H
#define SEMEL_PROGRAM_OPERATE_DEAD_H

#include "program/operate/filters.h"
#include "program/operate/table.h"

enum { DEAD_STEP = 100, DEAD_ROWS = 1000, DEAD_SAMPLE = 3, DEAD_SHOWN = 2, DEAD_CAUSE_SIZE = 9 };

typedef struct dead_options {
    tool_options tool;
    filter_options filter;
    argument_list letters;
    uint64_t wait_ms;
    int here, forget, body;
} dead_options;

/* A copy of a letter, without what is long. */
typedef struct dead_letter {
    int64_t id;
    semel_dead_origin origin;
    const char *name;
    semel_bytes key;
    const char *type;
    semel_bytes message_id;
    uint32_t attempts;
    int64_t at_ms;
    uint32_t cause;
    int retry; /* a semel_retry */
    const char *error;
    int damaged; /* there is no message; `error` says why */
} dead_letter;

/* A command at work. */
typedef struct dead_work {
    const dead_options *options;
    tool tool;
    filters filters;
    int64_t *ids; /* those that were typed, ascending, each once; NULL: the filters name the set */
    size_t id_count;
    size_t gone; /* of these, those that are not there (any more) */
} dead_work;

/* Opens the tool and reads letters and filters; an exit status. dead_end() in any case. */
int dead_begin(dead_work *w, const char *caller, const dead_options *options);
void dead_end(dead_work *w);

/* The same with a tool that is borrowed (tool_borrow), which w->tool is already. */
int dead_begin_borrowed(dead_work *w, const dead_options *options);
void dead_end_borrowed(dead_work *w);

/* 1 if letters or filters say which set is meant; else it is all there are. */
int dead_names_a_set(const dead_options *options);

/* --- dead_select.c: the set, in steps --------------------------------------------------------- */

typedef struct dead_page {
    size_t step; /* how many rows it reads: DEAD_STEP if it changes them, DEAD_ROWS if not */
    dead_letter *items;
    size_t count;
    region memory;
    int64_t after; /* where the next step begins; 0 at first */
    int64_t last;  /* no letter behind this one; 0: none is excluded */
    size_t next;   /* of the ids that were typed */
    size_t limit;  /* of the set; 0: none */
    size_t taken;
    int is_last; /* there is nothing behind this page */
} dead_page;

/* The next step of the set: those of its rows that match, possibly none. 0 when there are no
 * more, -1 after an error, whose exit status is *status. */
int dead_next(dead_work *w, dead_page *p, int *status);
void dead_page_free(dead_page *p);

/* One letter by its id, with its message. SEMEL_ENOTFOUND if it is not there. The visitor must not
 * use the store. */
semel_status dead_visit(dead_work *w, int64_t id, semel_dead_visitor *visitor, void *context,
                        semel_error *err);

/* The copy of a letter in `memory`. */
dead_letter dead_copy(region *memory, const semel_dead *from);

typedef struct dead_summary {
    uint64_t count;
    int64_t first_ms, last_ms;
    int64_t last_id;
    const char *names[3]; /* the first of them */
    size_t name_count;
    uint32_t cause; /* that all have; 0: they have several */
    char text[SEMEL_CAUSE_TEXT_SIZE];
    dead_letter sample[DEAD_SAMPLE];
    size_t sampled;
    region memory;
} dead_summary;

/* Reads the whole set once: what it is at this moment. Ids that are not there are told. Returns an
 * exit status. */
int dead_summarize(dead_summary *out, dead_work *w);

/* --- dead_words.c ----------------------------------------------------------------------------- */

void dead_show_cause(char out[DEAD_CAUSE_SIZE], uint32_t cause);
void dead_show_moment(buffer *to, const dead_work *w, int64_t ms);
void dead_show_count(buffer *to, uint64_t count);                             /* 317 letters */
void dead_show_place(buffer *to, semel_dead_origin origin, const char *name); /* outbox shipping */

/* "317 letters in invoices, 2026-03-14 02:41:15 to 03:02:58", without the times if `times` is 0. */
void dead_show_set(buffer *to, const dead_work *w, const dead_summary *set, int times);

/* The command as it can be typed again: "dead retry --cause 7f3a90c1". */
void dead_show_command(buffer *to, const dead_work *w);
/* The same for the rest of the set, after an interruption: from `after` on, up to `last`. */
void dead_show_rest(buffer *to, const dead_work *w, int64_t last);

/* "4m": how long that is, in the largest unit that fits. */
void dead_show_age(buffer *to, int64_t ms);

/* Says that a letter is not there, and which entry of the audit did it, if that is known. Returns
 * CLI_NOT_FOUND. */
int dead_say_gone(dead_work *w, int64_t id);

/* --dry-run: how many, and some of them. */
void dead_say_dry_run(dead_work *w, const dead_summary *set, const char *verb);

/* The columns of a letter, as `dead ls` shows them. */
extern const table_column dead_columns[];
void dead_add_row(table *t, const dead_letter *letter);
void dead_add_cells(table *t, const dead_letter *letter); /* and does not end the row */
/* The cells of inbox, outbox and queue, of which a letter has one. */
void dead_add_place(table *t, semel_dead_origin origin, const char *name);

/* --- the commands ----------------------------------------------------------------------------- */

int dead_groups(dead_work *w);
int dead_ls(dead_work *w);
int dead_show(dead_work *w);
int dead_retry(dead_work *w);
int dead_discard(dead_work *w);
int dead_export(dead_work *w);

/* The changes alone, of a set that was looked at and confirmed: with their entry in the audit, in
 * steps that can be stopped. Exit statuses. */
int dead_retry_set(dead_work *w, const dead_summary *set);
int dead_discard_set(dead_work *w, const dead_summary *set);

#endif
