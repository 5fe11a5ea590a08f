# shellcheck shell=sh disable=SC2154 # dev/servers sets home and disk
# dev/servers.d/postgres.sh: PostgreSQL, for dev/servers. SEMEL_POSTGRES_BIN is the directory of another one.
# The state file has POSTGRES_SOCKET_DIR as well.
unset PGDATA PGHOST PGPORT PGUSER PGDATABASE PGOPTIONS PGSERVICE

need_postgres() {
    has_debian_postgres || need postgresql commands postgres initdb pg_ctl
    need pgbouncer commands pgbouncer # tests start one before it
}
has_debian_postgres() { for bin in /usr/lib/postgresql/*/bin/postgres; do [ -x "$bin" ] || return 1; done; }

user_postgres() { echo postgres; }

postgres_bin() {
    bin=${SEMEL_POSTGRES_BIN:-}
    [ -n "$bin" ] || for bin in /usr/lib/postgresql/*/bin; do :; done # the newest
    [ -x "$bin/postgres" ] || bin=$(dirname "$(command -v postgres)") # somewhere else
    [ -x "$bin/initdb" ] || die "PostgreSQL is not installed; dev/setup servers does that"
}

# An initdb that is interrupted leaves shared memory, so signals of the terminal do not reach it.
make_postgres() {
    # shellcheck disable=SC2086 # none or one
    as postgres setsid -w "$bin/initdb" -D "$home/data" -U postgres -A trust -E UTF8 --no-locale $sync \
        >>"$home/log" 2>&1 && keep_template postgres
}

# Shared memory in files, because they go with the directory.
init_postgres() {
    postgres_bin
    cache="max_wal_size = 256MB" sync=--no-sync
    [ -z "$disk" ] || cache="shared_buffers = 1GB" sync=
    copy_template postgres || make_postgres || return 1
    cat >>"$home/data/postgresql.conf" <<END
listen_addresses = '127.0.0.1'
unix_socket_directories = '$home'
max_connections = 500
max_prepared_transactions = 10
lc_messages = 'C'
dynamic_shared_memory_type = mmap
$cache
END
}

port_postgres() { echo "port = $1" >>"$home/data/postgresql.conf"; }

launch_postgres() {
    postgres_bin
    as postgres "$bin/pg_ctl" -D "$home/data" -w -t "$START_S" -l "$home/log" start >/dev/null 2>&1 </dev/null
}

pid_postgres() { sed -n 1p "$home/data/postmaster.pid" 2>/dev/null || true; }

has_no_segment() { ! awk -v id="$1" '$2 == id { found = 1 } END { exit !found }' /proc/sysvipc/shm; }

# The postmaster is stopped first, or it would take the death of the others as a reason to begin again. What
# is left then is a segment of System V, which is really gone when the last process that knew it is.
crash_postgres() {
    lock=$(cat "$home/data/postmaster.pid" 2>/dev/null) || return 0 # a server that ends takes it along
    pid=$(echo "$lock" | sed -n 1p)
    [ -n "$pid" ] || return 0
    segment=$(echo "$lock" | awk 'NR == 7 { print $2 }')
    if is_ours "$pid"; then
        kill -STOP "$pid" 2>/dev/null || true
        within "$END_S" is_stopped "$pid"
        all="$pid $(children "$pid")"
        # shellcheck disable=SC2086 # these are words to split
        { kill -KILL $all 2>/dev/null || true; } && within "$END_S" are_gone $all
    fi
    if [ -n "$segment" ]; then
        ipcrm -m "$segment" 2>/dev/null || true
        within "$END_S" has_no_segment "$segment"
    fi
    rm -f "$home/data/postmaster.pid" "$home"/.s.PGSQL.*
}

halt_postgres() {
    postgres_bin
    as postgres "$bin/pg_ctl" -D "$home/data" -w -m fast stop >/dev/null 2>&1
}

where_postgres() {
    cat <<END
POSTGRES_URL=postgres://postgres@127.0.0.1:$1/postgres
POSTGRES_HOST=127.0.0.1
POSTGRES_PORT=$1
POSTGRES_DIR=$home
POSTGRES_PID_FILE=$home/data/postmaster.pid
POSTGRES_SOCKET_DIR=$home
END
}
