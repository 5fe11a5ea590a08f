/* The leasing of outbox rows: what outbox_lease.c, outbox_lease_groups.c and outbox_park.c
 * share. */
#ifndef SEMEL_MARIADB_OUTBOX_LEASE_H
#define SEMEL_MARIADB_OUTBOX_LEASE_H

#include "store/mariadb/mariadb.h"

enum {
    GROUPS_MAX = 256, /* by name, in a look */
    GROUPS_MIN = 16,
    TIMED_MAX = 128, /* by time */
    PAGES_MAX = 10,
    PARKED_MAX = 1000,    /* rows that are parked in a call ... */
    PARKED_OF_GROUP = 100 /* ... and of a group at a visit */
};

/* A row at the front of its group, as it was seen. */
typedef struct maria_candidate {
    int64_t seq;
    uint32_t group; /* index into groups */
} maria_candidate;

/* A group, and its first row as it was seen. */
typedef struct maria_group_front {
    const char *name;
    size_t len;
    int by_time;      /* found by time: its row in semel_group is locked */
    int known;        /* found by name: semel_group has a row of it */
    int64_t head;     /* 0: none was seen */
    int waits;        /* the head does, until ... */
    int64_t visit_ms; /* ... then; or is leased: then look again */
    int open;         /* more of it may go */
    int blocked;      /* a row of it could not be locked */
    int parked;       /* rows were seen that are ... */
    int unparked;     /* ... or are not */
    int passed_over;  /* there was no room for it */
    uint32_t seen;    /* rows of it, while it was open */
    uint32_t chosen;  /* rows that are to be leased */
    int64_t first;    /* to be parked, 0: none */
    int ours;         /* to park: its row in semel_group is locked */
} maria_group_front;

typedef struct maria_leasing {
    mariadb_unit *unit;
    int64_t outbox;
    uint64_t token;
    uint32_t limit;
    uint32_t lease_ms;
    semel_item_sink *sink;
    void *context;
    sql_cursor cursor; /* a copy, put back at the end */
    int64_t *seqs;     /* of the rows delivered */
    uint32_t count;
    uint32_t leased;                                  /* of those */
    maria_group_front groups[TIMED_MAX + GROUPS_MAX]; /* those by time first */
    uint32_t group_count;
    uint32_t timed;                 /* of those */
    uint32_t groups_asked;          /* by name */
    int parks;                      /* some group is known */
    int with_parked;                /* parked rows are looked at as well */
    int again;                      /* they should have been */
    char until[SEMEL_TEXT_MAX + 1]; /* "": to the end; else the group at which the round ends */
    int past;                       /* the round has come that far */
    maria_candidate *candidates;
    uint32_t candidate_count;
    uint32_t quota;            /* of the room: for groups by time */
    uint32_t share;            /* rows of a group that are looked at */
    uint32_t last;             /* group by name among them, counted from 1; 0: none */
    int looked;                /* groups by time have been looked at */
    int full;                  /* there were more by name than there is room for */
    uint32_t next;             /* candidate to be expected from the server */
    maria_candidate *parkable; /* rows */
    uint32_t parkable_count;
    uint32_t parked; /* in this call */
    int wrote;       /* something about groups */
} maria_leasing;

/* outbox_lease_groups.c. The names of groups that are due, and the first rows of those that come
 * next by name; then what of both is to be leased, as candidates. */
uint32_t maria_groups_at_first(const maria_leasing *t);
void maria_enqueue_timed_groups(maria_leasing *t);
void maria_enqueue_named_groups(maria_leasing *t, const char *from, uint32_t groups);
semel_status maria_choose_rows(maria_leasing *t, semel_error *err);

/* outbox_park.c. What the visits have found is noted: its answer comes with the commit. */
semel_status maria_park_groups(maria_leasing *t, semel_error *err);

#endif
