# shellcheck shell=sh disable=SC2154 # dev/servers sets home and disk
# dev/servers.d/redis.sh: Redis, for dev/servers. SEMEL_REDIS_SERVER is another program, such as valkey-server, and
# SEMEL_REDIS_CONFIG has more lines of configuration, such as "cluster-enabled yes". What is acknowledged is on the disk
# (appendfsync always). The state file has REDIS_SOCKET and REDIS_TLS_PORT as well, with _CA, _CERTIFICATE and _KEY of a
# client. There is a password, "semel", so that tests log in.
REDIS_SERVER=${SEMEL_REDIS_SERVER:-redis-server}

need_redis() {
    need redis-server commands redis-server
    need openssl commands openssl # the certificates of its TLS port
}

user_redis() { id -un redis 2>/dev/null || id -un; }

redis_certificate() { # redis_certificate NAME SUBJECT EXTENSION: signed by our CA
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$2" \
        -keyout "$home/$1.key" -out "$home/$1.csr"
    echo "$3" >"$home/$1.extension"
    openssl x509 -req -days 2 -in "$home/$1.csr" -CA "$home/ca.pem" -CAkey "$home/ca.key" -CAcreateserial \
        -extfile "$home/$1.extension" -out "$home/$1.pem"
}

redis_certificates() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj "/CN=semel test CA" -keyout "$home/ca.key" -out "$home/ca.pem"
    redis_certificate server localhost "subjectAltName=DNS:localhost"
    redis_certificate client semel "extendedKeyUsage=clientAuth"
}

init_redis() {
    command -v "$REDIS_SERVER" >/dev/null || die "Redis is not installed; dev/setup servers does that"
    redis_certificates >>"$home/log" 2>&1 </dev/null || return 1
    mkdir "$home/data"
    cat >"$home/common.conf" <<END
bind 127.0.0.1
protected-mode no
unixsocket $home/socket
unixsocketperm 777
dir $home/data
pidfile $home/pid
daemonize no
set-proc-title no
databases 16
save ""
appendonly yes
appendfsync always
maxmemory-policy noeviction
requirepass semel
tls-ca-cert-file $home/ca.pem
tls-cert-file $home/server.pem
tls-key-file $home/server.key
tls-auth-clients optional
${SEMEL_REDIS_CONFIG:-}
END
    [ "$(id -u)" != 0 ] || chown -R "$(user_redis):" "$home"
}

port_redis() {
    tls_port=$(random_port)
    { cat "$home/common.conf" && echo "port $1" && echo "tls-port $tls_port"; } >"$home/redis.conf"
    chmod 644 "$home/redis.conf"
}

# It says so when it accepts connections and has read what it had stored.
starts_redis() { grep -ci 'ready to accept connections' "$home/log" || true; }
redis_answers_or_died() { [ "$(starts_redis)" != "$started" ] || are_gone "$pid"; }

launch_redis() {
    started=$(starts_redis)
    (become "$(user_redis)" setsid "$REDIS_SERVER" "$home/redis.conf" </dev/null >>"$home/log" 2>&1) &
    pid=$!
    within "$START_S" redis_answers_or_died && ! are_gone "$pid" && echo "$pid" >"$home/launched"
}

pid_redis() { cat "$home/launched" 2>/dev/null || true; }

crash_redis() {
    pid=$(pid_redis)
    if is_ours "$pid"; then
        kill -KILL "$pid" 2>/dev/null || true
        within "$END_S" are_gone "$pid"
    fi
    rm -f "$home/launched" "$home/pid" "$home/socket"
}

halt_redis() {
    pid=$(pid_redis)
    kill -TERM "$pid" 2>/dev/null && within "$END_S" are_gone "$pid"
}

where_redis() {
    cat <<END
REDIS_URL=redis://default:semel@127.0.0.1:$1/0
REDIS_HOST=127.0.0.1
REDIS_PORT=$1
REDIS_TLS_PORT=$tls_port
REDIS_CA=$home/ca.pem
REDIS_CERTIFICATE=$home/client.pem
REDIS_KEY=$home/client.key
REDIS_DIR=$home
REDIS_PID_FILE=$home/launched
REDIS_SOCKET=$home/socket
END
}
