/* A store belongs to the process that opened it. A child has its sockets and files, too: to close a
 * connection there is to say goodbye in the parent's name, and a lock may be locked for ever. */
#ifndef SEMEL_STORE_SQL_PROCESS_H
#define SEMEL_STORE_SQL_PROCESS_H

#include <semel/error.h>
#include <sys/types.h>

/* EMISUSE unless `opener` is this process. */
semel_status sql_check_process(pid_t opener, semel_error *err);

#endif
