/* The readers of addresses, each in a file of its own, since two of them have types of one name. Each returns the
 * status and fills `err`; on success it has checked what it read. */
#ifndef SEMEL_FUZZ_URL_PARTS_H
#define SEMEL_FUZZ_URL_PARTS_H

#include <semel/error.h>

semel_status check_postgres_address(const char *url, semel_error *err);
semel_status check_mariadb_address(const char *url, semel_error *err);
semel_status check_rabbitmq_address(const char *url, semel_error *err);

#endif
