/* What systemd is told: READY=1, STATUS=, RELOADING=1, STOPPING=1 and WATCHDOG=1, by the
 * protocol of sd_notify(3). Without NOTIFY_SOCKET every call does nothing. */
#ifndef SEMEL_PROGRAM_RUN_NOTIFY_H
#define SEMEL_PROGRAM_RUN_NOTIFY_H

#include <semel/export.h>
#include <stdint.h>

/* Assignments, each on a line of its own. That it fails stops nothing. */
void notify_send(const char *format, ...) SEMEL_PRINTF(1, 2);

/* RELOADING=1 with the time that systemd compares. */
void notify_reloading(void);

/* How often WATCHDOG=1 has to come, halved for safety; 0: systemd does not watch. */
int64_t notify_watchdog_ms(void);

#endif
