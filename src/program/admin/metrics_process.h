/* Metrics of the process, as other programs name them too: processor, memory, descriptors. */
#ifndef SEMEL_PROGRAM_ADMIN_METRICS_PROCESS_H
#define SEMEL_PROGRAM_ADMIN_METRICS_PROCESS_H

#include "program/admin/exposition.h"

void metrics_write_process(exposition *to, int64_t started_ms);

#endif
