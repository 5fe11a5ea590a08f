#!/bin/sh
# check_manners.sh NM ARCHIVE: a library is a guest. It does not end the process, write to its output,
# take its signals, start processes, or change what belongs to all of it. The threads that it starts when asked
# to (see semel.h) all come from src/base/thread.c, which blocks every signal in them: dev/check-banned sees to that,
# and to it that sigaction() is called in src/base/sigpipe.c only, to take back what libmariadb does with SIGPIPE.
set -eu
banned='exit _exit _Exit quick_exit abort
    printf vprintf puts putchar putc fputc fputs fprintf vfprintf fwrite perror syslog stdout stderr
    signal sigprocmask thrd_create
    fork vfork system popen posix_spawn posix_spawnp execv execve execvp
    setlocale putenv setenv unsetenv chdir umask srand srandom'
# shellcheck disable=SC2086 # lists of words
# printf may be called as __printf_chk, when fortified.
names=$(printf '%s\n' $banned)
found=$("$1" -u "$2" | awk '{ sub(/^__/, "", $NF); sub(/_chk$/, "", $NF); print $NF }' | sort -u |
    grep -Fx -e "$names" || true)
if [ -n "$found" ]; then
    echo "$2 must not refer to:
$found"
    exit 1
fi
