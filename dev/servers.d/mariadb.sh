# shellcheck shell=sh disable=SC2154 # dev/servers sets home and disk
# dev/servers.d/mariadb.sh: MariaDB, for dev/servers. The state file has MARIADB_SOCKET and MARIADB_SOCKET_DIR as well.
unset MYSQL_HOST MYSQL_TCP_PORT MYSQL_UNIX_PORT

need_mariadb() { need mariadb-server commands mariadbd mariadb-install-db mariadb mariadb-admin; }

user_mariadb() { echo mysql; }

mariadb_quiet() { # mariadb_quiet PROGRAM ARGUMENT…: as root of the server, by way of its socket
    program=$1
    shift
    "$program" --no-defaults -S "$home/socket" -u root "$@" >/dev/null 2>&1
}

init_mariadb() {
    command -v mariadb-install-db >/dev/null || die "MariaDB is not installed; dev/setup servers does that"
    sizes="innodb-buffer-pool-size = 256M
innodb-log-file-size = 32M"
    [ -z "$disk" ] || sizes="innodb-buffer-pool-size = 1G"
    cat >"$home/my.cnf" <<END
[mariadbd]
datadir = $home/data
tmpdir = $home
socket = $home/socket
pid-file = $home/pid
bind-address = 127.0.0.1
skip-name-resolve
max-connections = 500
$sizes
$([ "$(id -u)" != 0 ] || echo "user = mysql")
END
    chmod 644 "$home/my.cnf"
    copy_template mariadb && return
    mariadb-install-db --defaults-file="$home/my.cnf" --datadir="$home/data" --skip-test-db \
        --auth-root-authentication-method=normal >>"$home/log" 2>&1 && keep_template mariadb
}

port_mariadb() { echo "port = $1" >>"$home/my.cnf"; }

# By its own socket, since at the port another instance may answer. 0 also when it has died.
mariadb_answers_or_died() { are_gone "$pid" || mariadb_quiet mariadb-admin ping; }

launch_mariadb() {
    setsid mariadbd --defaults-file="$home/my.cnf" </dev/null >>"$home/log" 2>&1 &
    pid=$!
    echo "$pid" >"$home/launched"
    within "$START_S" mariadb_runs_or_died || return 1 # between fork and exec it is still a shell
    within "$START_S" mariadb_answers_or_died && mariadb_quiet mariadb -e "CREATE DATABASE IF NOT EXISTS semel"
}
mariadb_runs_or_died() { is_ours "$pid" || are_gone "$pid"; }

pid_mariadb() { cat "$home/launched" 2>/dev/null || true; }

crash_mariadb() {
    pid=$(pid_mariadb)
    if is_ours "$pid"; then
        kill -KILL "$pid" 2>/dev/null || true
        within "$END_S" are_gone "$pid"
    fi
    rm -f "$home/launched" "$home/pid" "$home/socket"
}

halt_mariadb() {
    pid=$(pid_mariadb)
    mariadb_quiet mariadb-admin shutdown && within "$END_S" are_gone "$pid"
}

where_mariadb() {
    cat <<END
MARIADB_URL=mariadb://root@127.0.0.1:$1/semel
MARIADB_HOST=127.0.0.1
MARIADB_PORT=$1
MARIADB_DIR=$home
MARIADB_PID_FILE=$home/pid
MARIADB_SOCKET_DIR=$home
MARIADB_SOCKET=$home/socket
END
}
