/* `semel doctor`: would `run` work here, and how safely? Each part looks at one thing, changes
 * nothing, and adds what it finds; the report comes at the end. */
#ifndef SEMEL_PROGRAM_OPERATE_DOCTOR_H
#define SEMEL_PROGRAM_OPERATE_DOCTOR_H

#include "program/config/config.h"
#include "program/operate/tool.h"

/* In the order of the report. */
typedef enum doctor_check {
    DOCTOR_CONFIG,
    DOCTOR_STORE,
    DOCTOR_SCHEMA,
    DOCTOR_DEFINITION,
    DOCTOR_TABLES,
    DOCTOR_RIGHTS,
    DOCTOR_DURABILITY,
    DOCTOR_ISOLATION,
    DOCTOR_CLOCK,
    DOCTOR_BROKER,
    DOCTOR_TOPOLOGY,
    DOCTOR_HANDLERS,
    DOCTOR_LIMITS,
    DOCTOR_DISK,
    DOCTOR_CHECKS
} doctor_check;

typedef struct doctor_finding {
    struct doctor_finding *next;
    doctor_check check;
    semel_severity severity;
    const char *text;
    const char *fix; /* "": none */
} doctor_finding;

/* The grade of an inbox with its queue. */
typedef struct doctor_grade {
    struct doctor_grade *next;
    const char *inbox;
    semel_grade grade;
    const char *reason; /* "": it is the best */
} doctor_grade;

typedef struct doctor {
    tool_options options;
    const char *management; /* --rabbitmq-management, as it was given */
    unsigned wanted;        /* a bit for each check; 0: all */
    int strict;

    region memory;
    config *all;           /* NULL: with --store and without -c */
    const char *store_url; /* NULL: not known */
    semel_store_options store_options;
    semel_store *store;           /* NULL: it could not be opened, or is not there yet */
    int store_is_new;             /* ... the second */
    semel_transport **transports; /* one for each queue of the configuration, or NULL */
    doctor_finding *found[DOCTOR_CHECKS];
    doctor_grade *grades;
} doctor;

/* The number of a check by its name; -1. */
int doctor_check_named(const char *name);
const char *doctor_check_name(doctor_check check);

/* 1 if the user wants this check. */
int doctor_wants(const doctor *d, doctor_check check);

/* Adds a finding, unless the check is not wanted; `fix` may be NULL. */
void doctor_find(doctor *d, doctor_check check, semel_severity severity, const char *fix,
                 const char *format, ...) SEMEL_PRINTF(5, 6);

/* doctor_store.c: opens the store and asks it. */
void doctor_look_at_store(doctor *d);

/* doctor_table.c: tables whose rows are sent, and their triggers. */
void doctor_look_at_tables(doctor *d);

/* doctor_broker.c: opens the queues that are not in the store. */
void doctor_look_at_brokers(doctor *d);

/* doctor_policy.c: asks RabbitMQ's management for what its queues drop. */
void doctor_look_at_policies(doctor *d);

/* doctor_handler.c: programs, hosts, statements. */
void doctor_look_at_handlers(doctor *d);

/* doctor_limits.c: descriptors. */
void doctor_look_at_limits(doctor *d);

/* doctor_grade.c: what is promised, and whether that is what is required. */
void doctor_look_at_grades(doctor *d);

/* doctor_report.c: prints all of it; returns the exit status. */
int doctor_report(const doctor *d);

/* The value of a parameter of a URL, percent-decoded; NULL if it is not there. */
const char *doctor_url_parameter(region *memory, const char *url, const char *name);

#endif
