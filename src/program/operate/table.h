/* Rows in columns for people, or one JSON object for each row.
 *
 *     table t = {.json = options->json, .columns = columns};
 *     table_text(&t, name);  table_number(&t, count);  ...  table_end_row(&t);
 *     table_print(&t);
 *
 * Columns are as wide as what they hold. Numbers are aligned to the right, texts to the left. A
 * column that may be cut is cut with "..." on a terminal only; a row that is too wide goes on in a
 * second line. What comes from messages, servers and names is neutralised (support/show.h). With
 * colour (support/colour.h) headings are bold, and what is in a column STATE has the colour of what
 * it means. */
#ifndef SEMEL_PROGRAM_OPERATE_TABLE_H
#define SEMEL_PROGRAM_OPERATE_TABLE_H

#include "program/support/memory.h"

#include <semel/message.h>
#include <stdint.h>
#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 16 };

typedef struct table_column {
    const char *heading; /* "ATTEMPTS"; NULL: not for people */
    const char *field;   /* "attempts"; NULL: not in JSON. The last column is followed by {0} */
    int right;           /* aligned to the right */
    int cut;             /* may be cut: an error */
} table_column;

typedef struct table_row table_row;

typedef struct table {
    const table_column *columns;
    int json;
    int utc;
    table_row *first, *last, *current; /* the rest is the table's own; zeroed at first */
    region memory;
    size_t column;
    size_t rows;                      /* of all pages */
    size_t widths[TABLE_COLUMNS_MAX]; /* they only grow, page by page */
    int has_headings;
} table;

/* The next cell of the row. A text of NULL, a number of -1 and a time of 0 are "-", and left out of
 * JSON. */
void table_text(table *t, const char *text);
void table_bytes(table *t, const void *text, size_t len);
void table_key(table *t, semel_bytes key);    /* as it is stored */
void table_id(table *t, semel_bytes id);      /* of a message, as it can be typed (show_key) */
void table_number(table *t, int64_t number);  /* 1,204; plain in JSON */
void table_moment(table *t, int64_t wall_ms); /* 2026-03-14 02:41:15; RFC 3339 in JSON */
void table_duration(table *t, int64_t ms);    /* 14m 20s; in JSON a number, field ..._ms */
void table_cell(table *t, const char *people, const char *json); /* as they are; json is a value */
void table_end_row(table *t);

size_t table_rows(const table *t); /* of all pages */

/* Prints the rows so far and frees them: for lists that are too long to be held. The columns get no
 * narrower. Returns 0 if the output is closed: then there is nothing to do any more. */
int table_page(table *t, FILE *to);

/* Frees the rows without printing them. */
void table_free(table *t);

/* Prints all rows, with headings for people, and frees them. An empty table prints nothing. */
void table_print(table *t, FILE *to);

#endif
