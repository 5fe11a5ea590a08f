# shellcheck shell=sh disable=SC2154 # dev/servers sets dir, home and disk
# dev/servers.d/rabbitmq.sh: RabbitMQ, for dev/servers. SEMEL_RABBITMQ_BIN is the directory of another one. The state
# file has RABBITMQ_TLS_PORT as well, with _CA, _CERTIFICATE and _KEY of a client, _NODE, and _CTL: a script that is
# rabbitmqctl for it. There is no socket. SEMEL_RABBITMQ_PLUGINS=rabbitmq_management starts it with that plugin, and the
# state file has RABBITMQ_MANAGEMENT_URL.
#
# A node of Erlang has more than a port of its own: a name, a cookie, a port for other nodes, and epmd, which
# knows all nodes of a machine by name and which the first of them starts for all. Here each node has an
# epmd of its own, started and ended with it, so that instances do not see each other and none stays behind.
# All of its processes, also what rabbitmqctl starts, have its directory as HOME: so they are found.
RABBITMQ_BIN=${SEMEL_RABBITMQ_BIN:-/usr/lib/rabbitmq/bin}

need_rabbitmq() {
    need rabbitmq-server commands rabbitmq-server rabbitmqctl epmd
    need openssl commands openssl         # the certificates of its TLS port
    need python3-pika python_modules pika # publishers and consumers of the tests that are not ours
    need amqp-tools commands amqp-publish amqp-consume
}

user_rabbitmq() { id -un rabbitmq 2>/dev/null || id -un; }

# What the node and rabbitmqctl must know. Variables of the caller that begin so would be obeyed as well.
write_rabbitmq_environment() { # write_rabbitmq_environment PORT DIST_PORT EPMD_PORT
    cat >"$home/environment" <<END
for name in \$(env | sed -n 's/^\(RABBITMQ_[A-Z_]*\)=.*/\1/p'); do unset "\$name"; done
unset NOTIFY_SOCKET ERL_LIBS ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS
export HOME=$home LC_ALL=C
export ERL_EPMD_PORT=$3 ERL_EPMD_ADDRESS=127.0.0.1 ERL_CRASH_DUMP=$home/crash.dump
export RABBITMQ_NODENAME=$(basename "$dir")@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1
export RABBITMQ_NODE_PORT=$1 RABBITMQ_DIST_PORT=$2
export RABBITMQ_MNESIA_BASE=$home/data RABBITMQ_LOG_BASE=$home/logs RABBITMQ_PID_FILE=$home/pid
export RABBITMQ_CONFIG_FILE=$home/rabbitmq.config RABBITMQ_ADVANCED_CONFIG_FILE=$home/none
export RABBITMQ_CONF_ENV_FILE=$home/none RABBITMQ_ENABLED_PLUGINS_FILE=$home/plugins
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'
export RABBITMQ_CTL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'
export RABBITMQ_CTL_DIST_PORT_MIN=0 RABBITMQ_CTL_DIST_PORT_MAX=0
export detached=1 # the script becomes the server, with no shell in between
END
}

# In Erlang's own terms: rabbitmq.conf would be translated by the schemas of all plugins, at each start.
write_rabbitmq_config() { # write_rabbitmq_config PORT TLS_PORT MANAGEMENT_PORT
    management=
    [ -z "$3" ] || management="
  {rabbitmq_management, [{tcp_config, [{ip, \"127.0.0.1\"}, {port, $3}]}]},"
    cat >"$home/rabbitmq.config" <<END
[$management
  {rabbit, [
    {tcp_listeners, [{"127.0.0.1", $1}]},
    {ssl_listeners, [{"127.0.0.1", $2}]},
    {ssl_options, [
      {cacertfile, "$home/ca.pem"},
      {certfile, "$home/server.pem"},
      {keyfile, "$home/server.key"},
      {verify, verify_peer},
      {fail_if_no_peer_cert, false}]},
    {log, [
      {console, [{enabled, true}, {level, info}, {formatter, {rabbit_logger_text_fmt, #{use_colors => false}}}]},
      {file, [{file, false}]}]},
    {disk_free_limit, "50MB"},
    {vm_memory_high_watermark, {absolute, "1GB"}},
    ${3:+{collect_statistics_interval, 500\},}
    {handshake_timeout, 60000},
    {ssl_handshake_timeout, 60000}]}].
END
}

make_certificate() { # make_certificate NAME SUBJECT EXTENSION: signed by our CA
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$2" \
        -keyout "$home/$1.key" -out "$home/$1.csr"
    echo "$3" >"$home/$1.extension"
    openssl x509 -req -days 2 -in "$home/$1.csr" -CA "$home/ca.pem" -CAkey "$home/ca.key" -CAcreateserial \
        -extfile "$home/$1.extension" -out "$home/$1.pem"
}

make_certificates() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj "/CN=semel test CA" -keyout "$home/ca.key" -out "$home/ca.pem"
    make_certificate server localhost "subjectAltName=DNS:localhost,IP:127.0.0.1"
    make_certificate client semel "extendedKeyUsage=clientAuth"
}

# A node loads all modules of all applications that it depends on, a thousand, one by one: each is looked for in
# a hundred directories, and for each all that is loaded is put in order again. Here all of them are loaded at once,
# before it begins, which saves a third of the start. If something in it fails, the node loads what is missing itself.
write_rabbitmq_preload() {
    cat >"$home/preload" <<'END'
catch begin
  Closure = fun Add(App, Known) ->
    case lists:member(App, Known) of
      true -> Known;
      false ->
        {ok, [{application, _, Keys}]} = file:consult(code:where_is_file(atom_to_list(App) ++ ".app")),
        lists:foldl(Add, [App | Known], proplists:get_value(applications, Keys, []))
    end
  end,
  Files = [{list_to_atom(filename:basename(File, ".beam")), File} || App <- Closure(rabbit, []),
    File <- filelib:wildcard(filename:join(code:lib_dir(App, ebin), "*.beam"))],
  Read = [{Module, File, element(2, {ok, _} = file:read_file(File))} || {Module, File} <- Files,
    code:is_loaded(Module) =:= false],
  Load = fun Try(All) -> % without those that may only be loaded one by one
    case code:prepare_loading(All) of
      {ok, Prepared} -> code:finish_loading(Prepared);
      {error, Refused} -> Try([One || One <- All, not lists:keymember(element(1, One), 1, Refused)])
    end
  end,
  Load(Read)
end.
END
}

# epmd has no argument that could name our directory, so it is called by a name in it.
init_rabbitmq() {
    if [ ! -x "$RABBITMQ_BIN/rabbitmq-server" ] || ! command -v epmd >/dev/null; then
        die "RabbitMQ is not installed; dev/setup servers does that"
    fi
    make_certificates >>"$home/log" 2>&1 </dev/null || return 1
    echo "[${SEMEL_RABBITMQ_PLUGINS:-}]." >"$home/plugins"
    write_rabbitmq_preload
    ln -s "$(command -v epmd)" "$home/epmd"
    cat >"$home/ctl" <<END
#!/bin/sh
# rabbitmqctl for this node.
. $home/environment
exec $RABBITMQ_BIN/rabbitmqctl "\$@"
END
    chmod 755 "$home/ctl"
    [ "$(id -u)" != 0 ] || chown "$(user_rabbitmq):" "$home"/*
}

port_rabbitmq() {
    tls_port=$(random_port) management_port=
    [ -z "${SEMEL_RABBITMQ_PLUGINS:-}" ] || management_port=$(random_port)
    write_rabbitmq_config "$1" "$tls_port" "$management_port"
    write_rabbitmq_environment "$1" "$(random_port)" "$(random_port)"
}

# Runs in the background: this process becomes the server's.
become_rabbitmq() { # become_rabbitmq COMMAND…
    # shellcheck disable=SC1091 # we wrote it
    . "$home/environment"
    cd "$home" || exit
    become "$(user_rabbitmq)" setsid "$@" </dev/null >>"$home/log" 2>&1
}

# shellcheck disable=SC1091 # we wrote it
has_epmd() { (. "$home/environment" && epmd -names >/dev/null 2>&1); }
has_epmd_or_none() { has_epmd || are_gone "$epmd"; }

launch_rabbitmq() {
    started=$(starts_rabbitmq)
    become_rabbitmq "$home/epmd" &
    epmd=$!
    # If another one has its port, ours ends at once, and the node would ask the other one.
    within "$START_S" has_epmd_or_none && sleep 0.05
    if are_gone "$epmd"; then
        echo "the port of epmd is in use" >>"$home/log"
        return 1
    fi
    become_rabbitmq env ERL_AFLAGS='-eval file:script(preload)' "$RABBITMQ_BIN/rabbitmq-server" \
        -semel "$home/" & # the argument is for is_ours
    pid=$!
    echo "$pid" >"$home/launched"
    within "$START_S" rabbitmq_answers_or_died && ! are_gone "$pid" && return 0
    crash_rabbitmq
    return 1
}

# It says so when all of its listeners are open; rabbitmqctl would take a second more to ask.
starts_rabbitmq() { grep -c 'Server startup complete' "$home/log" || true; }
rabbitmq_answers_or_died() { [ "$(starts_rabbitmq)" != "$started" ] || are_gone "$pid"; }

pid_rabbitmq() { cat "$home/launched" 2>/dev/null || true; }

# By their environment, which only their own user may be allowed to read.
processes_rabbitmq() {
    as "$(user_rabbitmq)" grep -lszxF "HOME=$home" /proc/[0-9]*/environ | cut -d / -f 3 || true
}

crash_rabbitmq() {
    pid=$(pid_rabbitmq)
    ! is_ours "$pid" || kill -KILL "$pid" 2>/dev/null || true # first, so that it starts no others
    for _ in 1 2 3; do
        all=$(processes_rabbitmq)
        [ -n "$all" ] || break
        # shellcheck disable=SC2086 # these are words to split
        { kill -KILL $all 2>/dev/null || true; } && within "$END_S" are_gone $all
    done
    rm -f "$home/launched" "$home/pid"
}

# SIGTERM is an orderly shutdown. What is left then is epmd.
halt_rabbitmq() {
    pid=$(pid_rabbitmq)
    kill -TERM "$pid" 2>/dev/null && within "$END_S" are_gone "$pid" && crash_rabbitmq
}

where_rabbitmq() {
    cat <<END
RABBITMQ_URL=amqp://guest:guest@127.0.0.1:$1/%2F
RABBITMQ_HOST=127.0.0.1
RABBITMQ_PORT=$1
RABBITMQ_TLS_PORT=$tls_port
RABBITMQ_CA=$home/ca.pem
RABBITMQ_CERTIFICATE=$home/client.pem
RABBITMQ_KEY=$home/client.key
RABBITMQ_DIR=$home
RABBITMQ_PID_FILE=$home/launched
RABBITMQ_NODE=$(basename "$dir")@localhost
RABBITMQ_CTL=$home/ctl
END
    [ -z "$management_port" ] || echo "RABBITMQ_MANAGEMENT_URL=http://guest:guest@127.0.0.1:$management_port"
}
