# shellcheck shell=sh disable=SC2154 # dev/servers sets home and disk
# dev/servers.d/nats.sh: NATS with JetStream, for dev/servers. SEMEL_NATS_SERVER is another program than Debian's, or
# "newer": the one of NATS_NEWER below. Go builds that, once, into build/nats; the sums of its sources must be those of
# Go's checksum database. SEMEL_NATS_JETSTREAM has more lines for the block jetstream, such as "sync_interval: always",
# which Debian's server does not know. There are two servers that have nothing in common, because a port has TLS or not:
# the state file has NATS_TLS_PORT as well, with _CA, _CERTIFICATE and _KEY of a client. The user "semel" may do
# everything; "limited" may publish to free.> only. Each has its name as its password.
NATS_NEWER=v2.10.29
NATS_PLACE=$(cd "$(dirname "$0")/.." && pwd)/build/nats
NATS_SERVER=${SEMEL_NATS_SERVER:-nats-server}
[ "$NATS_SERVER" != newer ] || NATS_SERVER=$NATS_PLACE/$NATS_NEWER/nats-server

need_nats() {
    need nats-server commands nats-server
    need openssl commands openssl # the certificates of its TLS port
}

user_nats() { id -un nats 2>/dev/null || id -un; }

nats_certificate() { # nats_certificate NAME SUBJECT EXTENSION: signed by our CA
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$2" \
        -keyout "$home/$1.key" -out "$home/$1.csr"
    echo "$3" >"$home/$1.extension"
    openssl x509 -req -days 2 -in "$home/$1.csr" -CA "$home/ca.pem" -CAkey "$home/ca.key" -CAcreateserial \
        -extfile "$home/$1.extension" -out "$home/$1.pem"
}

nats_certificates() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj "/CN=semel test CA" -keyout "$home/ca.key" -out "$home/ca.pem"
    nats_certificate server localhost "subjectAltName=DNS:localhost"
    nats_certificate client semel "extendedKeyUsage=clientAuth"
}

# What Go brings and leaves besides is thrown away.
build_nats() {
    GOPATH=$NATS_PLACE/go GOCACHE=$NATS_PLACE/go/cache GOBIN=$NATS_PLACE/$NATS_NEWER GOFLAGS=-modcacherw \
        GOSUMDB=sum.golang.org GONOSUMDB='' GOPRIVATE='' CGO_ENABLED=0 \
        go install -p 2 "github.com/nats-io/nats-server/v2@$NATS_NEWER"
    built=$?
    rm -rf "$NATS_PLACE/go"
    return $built
}

# One instance builds, others wait for it.
install_nats() {
    [ "${SEMEL_NATS_SERVER:-}" = newer ] && [ ! -x "$NATS_SERVER" ] || return 0
    mkdir -p "$NATS_PLACE"
    (
        flock 9
        [ ! -x "$NATS_SERVER" ] || exit 0
        command -v go >/dev/null || die "Go is not installed; dev/setup newer-nats does that"
        build_nats || die "nats-server $NATS_NEWER could not be built: it takes Go 1.23 and the module proxy"
    ) 9>"$NATS_PLACE/.lock" >>"$home/log" 2>&1
}

# The server's user need not be able to look into the tree: what was built there is copied.
bring_nats() {
    install_nats || return 1
    [ "${SEMEL_NATS_SERVER:-}" = newer ] || return 0
    install -m 755 "$NATS_SERVER" "$home/nats-server"
}

init_nats() {
    bring_nats || return 1
    command -v "$NATS_SERVER" >/dev/null || die "NATS is not installed; dev/setup servers does that"
    nats_certificates >>"$home/log" 2>&1 </dev/null || return 1
    mkdir "$home/data" "$home/data-tls"
    touch "$home/log-tls"
    [ "$(id -u)" != 0 ] || chown -R "$(user_nats):" "$home"
}

write_nats_config() { # write_nats_config FILE PORT DATA
    cat >"$home/$1" <<END
listen: 127.0.0.1:$2
server_name: $1
jetstream {
    store_dir: "$home/$3"
    max_memory_store: 256MB
    max_file_store: 8GB
    ${SEMEL_NATS_JETSTREAM:-}
}
authorization {
    users: [
        { user: semel, password: semel }
        { user: limited, password: limited, permissions: {
            publish: ["free.>", "\$JS.API.>", "\$JS.ACK.>"], subscribe: ["_INBOX.>"] } }
    ]
}
END
    chmod 644 "$home/$1"
}

port_nats() {
    tls_port=$(random_port)
    write_nats_config plain.conf "$1" data
    write_nats_config tls.conf "$tls_port" data-tls
    cat >>"$home/tls.conf" <<END
tls {
    cert_file: "$home/server.pem"
    key_file: "$home/server.key"
    ca_file: "$home/ca.pem"
    verify: false
}
END
}

starts_nats() { grep -c 'Server is ready' "$1" || true; }
nats_answers_or_died() { # nats_answers_or_died LOG PID STARTED
    [ "$(starts_nats "$1")" != "$3" ] || are_gone "$2"
}

launch_nats_server() { # launch_nats_server CONFIG LOG LAUNCHED
    started=$(starts_nats "$home/$2")
    [ ! -x "$home/nats-server" ] || NATS_SERVER=$home/nats-server
    (become "$(user_nats)" setsid "$NATS_SERVER" -c "$home/$1" </dev/null >>"$home/$2" 2>&1) &
    launched=$!
    echo "$launched" >"$home/$3"
    within "$START_S" nats_answers_or_died "$home/$2" "$launched" "$started" && ! are_gone "$launched"
}

launch_nats() {
    launch_nats_server plain.conf log launched && launch_nats_server tls.conf log-tls launched-tls && return 0
    cat "$home/log-tls" >>"$home/log"
    crash_nats
    return 1
}

pid_nats() { cat "$home/launched" 2>/dev/null || true; }

end_nats_servers() { # end_nats_servers SIGNAL
    for file in "$home/launched" "$home/launched-tls"; do
        pid=$(cat "$file" 2>/dev/null || true)
        if is_ours "$pid"; then
            kill -s "$1" "$pid" 2>/dev/null || true
            within "$END_S" are_gone "$pid"
        fi
    done
}

crash_nats() {
    end_nats_servers KILL
    rm -f "$home/launched" "$home/launched-tls"
}

halt_nats() { end_nats_servers TERM; }

where_nats() {
    cat <<END
NATS_URL=nats://semel:semel@127.0.0.1:$1/semel
NATS_HOST=127.0.0.1
NATS_PORT=$1
NATS_TLS_PORT=$tls_port
NATS_CA=$home/ca.pem
NATS_CERTIFICATE=$home/client.pem
NATS_KEY=$home/client.key
NATS_DIR=$home
NATS_PID_FILE=$home/launched
END
}
