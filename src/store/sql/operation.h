/* What the lists of the servers' operation have in common. */
#ifndef SEMEL_STORE_SQL_OPERATION_H
#define SEMEL_STORE_SQL_OPERATION_H

#include <semel/sys/store.h>

/* A page of names. */
typedef struct sql_name_page {
    const char *after;
    uint32_t limit;
} sql_name_page;

/* Where the rows of a list go, whose visitor is of the type that the list has. */
typedef struct sql_name_target {
    semel_name_visitor *visitor;
    void *context;
    semel_scope kind;
} sql_name_target;

typedef struct sql_audit_target {
    semel_audit_visitor *visitor;
    void *context;
} sql_audit_target;

typedef struct sql_process_target {
    semel_process_visitor *visitor;
    void *context;
} sql_process_target;

/* A column that has no NULL. */
static inline const char *sql_text_or_empty(const char *text)
{
    return text ? text : "";
}

#endif
