# shellcheck shell=sh disable=SC2154 # dev/servers sets home and disk
# dev/servers.d/kafka.sh: Apache Kafka (KRaft: one process that is broker and controller), for dev/servers. Maven brings
# it from Maven Central as dev/servers.d/kafka/pom.xml says, once, into build/kafka; each file must be the one that
# jars.sha256 names. Only `make test-kafka` needs it. SEMEL_KAFKA_JARS is the directory of another version, and
# SEMEL_KAFKA_CONFIG has more lines of configuration. The state file has KAFKA_BOOTSTRAP as well, and KAFKA_SASL_PORT of
# a listener with TLS and passwords, with _CA: the users are "plain" (PLAIN) and "scram" (SCRAM-SHA-512), and
# the password of each is its name with "-secret" behind it. Its certificate is for "localhost".
KAFKA_PLACE=$(cd "$(dirname "$0")/.." && pwd)/build/kafka
KAFKA_LOCK=$(cd "$(dirname "$0")" && pwd)/servers.d/kafka
KAFKA_OPTIONS="-Xms128m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"

apart_kafka() { :; }

need_kafka() {
    need default-jre-headless commands java
    need maven commands mvn
    need kcat commands kcat # the client of the tests that is not ours
    need openssl commands openssl # the certificates of its listener with TLS
}

user_kafka() { id -un; }

kafka_jars() { echo "${SEMEL_KAFKA_JARS:-$KAFKA_PLACE/jars}"; }

# Maven itself does not try again when the network fails for a moment.
copy_jars() {
    for _ in 1 2 3; do
        rm -rf "$KAFKA_PLACE/jars"
        mvn --batch-mode --quiet -Dmaven.artifact.threads=16 --file "$KAFKA_LOCK/pom.xml" dependency:copy-dependencies \
            -DincludeScope=runtime "-DoutputDirectory=$KAFKA_PLACE/jars" && return
        sleep 2
    done
    return 1
}

# One instance installs, others wait for it. Afterwards it costs no more than a comparison, and no network.
install_kafka() {
    [ -z "${SEMEL_KAFKA_JARS:-}" ] || return 0
    mkdir -p "$KAFKA_PLACE"
    (
        flock 9
        ! cmp -s "$KAFKA_LOCK/jars.sha256" "$KAFKA_PLACE/installed" || exit 0
        command -v mvn >/dev/null || die "maven is not installed; dev/setup kafka does that"
        copy_jars || die "Maven Central could not be reached, or it does not have what $KAFKA_LOCK/pom.xml names"
        (cd "$KAFKA_PLACE/jars" && sha256sum -- *.jar) >"$KAFKA_PLACE/brought"
        diff "$KAFKA_LOCK/jars.sha256" "$KAFKA_PLACE/brought" || die "what came is not what jars.sha256 names"
        mv "$KAFKA_PLACE/brought" "$KAFKA_PLACE/installed"
    ) 9>"$KAFKA_PLACE/.lock" >>"$home/log" 2>&1
}

kafka_certificates() { # the server's: one file with its key
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj "/CN=semel test CA" -keyout "$home/ca.key" -out "$home/ca.pem" &&
        openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=localhost" \
            -keyout "$home/server.key" -out "$home/server.csr" &&
        echo "subjectAltName=DNS:localhost" >"$home/server.extension" &&
        openssl x509 -req -days 2 -in "$home/server.csr" -CA "$home/ca.pem" -CAkey "$home/ca.key" -CAcreateserial \
            -extfile "$home/server.extension" -out "$home/server.pem" &&
        cat "$home/server.key" "$home/server.pem" >"$home/server.both"
}

# Few partitions of its own topics, each of which is several files; short sessions, so that tests see a consumer expire.
# A killed broker is back when its old session with the controller is over.
init_kafka() {
    command -v java >/dev/null || die "java is not installed; dev/setup kafka does that"
    install_kafka || return 1
    kafka_certificates >>"$home/log" 2>&1 </dev/null || return 1
    security=org.apache.kafka.common.security
    cat >"$home/common.properties" <<END
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_SSL
listener.name.login.ssl.keystore.type=PEM
listener.name.login.ssl.keystore.location=$home/server.both
listener.name.login.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.login.plain.sasl.jaas.config=$security.plain.PlainLoginModule required user_plain="plain-secret";
listener.name.login.scram-sha-512.sasl.jaas.config=$security.scram.ScramLoginModule required;
log.dirs=$home/data
num.network.threads=2
num.io.threads=4
num.partitions=4
default.replication.factor=1
min.insync.replicas=1
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
message.max.bytes=20000000
log.cleaner.dedupe.buffer.size=4194304
${SEMEL_KAFKA_CONFIG:-}
END
    [ -z "$disk" ] || echo log.flush.interval.messages=1 >>"$home/common.properties" # survives a power failure
}

port_kafka() {
    controller_port=$(random_port)
    sasl_port=$(random_port)
    {
        cat "$home/common.properties"
        echo "listeners=PLAINTEXT://127.0.0.1:$1,LOGIN://127.0.0.1:$sasl_port,CONTROLLER://127.0.0.1:$controller_port"
        echo "advertised.listeners=PLAINTEXT://127.0.0.1:$1,LOGIN://localhost:$sasl_port"
        echo "controller.quorum.voters=1@127.0.0.1:$controller_port"
    } >"$home/server.properties"
}

become_java() { # become_java CLASS ARGUMENT…
    # shellcheck disable=SC2086 # words to split
    exec setsid java $KAFKA_OPTIONS -cp "$(kafka_jars)/*" "$@" </dev/null >>"$home/log" 2>&1
}

# The id is 16 bytes in base64url; all clusters of tests are clusters of their own.
format_kafka() {
    [ ! -e "$home/data/meta.properties" ] || return 0
    id=$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=')
    (become_java kafka.tools.StorageTool format --cluster-id "$id" --config "$home/server.properties" \
        --add-scram 'SCRAM-SHA-512=[name=scram,password=scram-secret]')
}

# It says so when it accepts connections, after it has read what it had stored. On a busy machine that takes long.
starts_kafka() { grep -c 'Kafka Server started' "$home/log" || true; }
kafka_answers_or_died() { [ "$(starts_kafka)" != "$started" ] || are_gone "$pid"; }

launch_kafka() {
    format_kafka || return 1
    started=$(starts_kafka)
    (become_java kafka.Kafka "$home/server.properties") &
    pid=$!
    echo "$pid" >"$home/launched"
    within $((2 * START_S)) kafka_answers_or_died && ! are_gone "$pid" && return 0
    crash_kafka
    return 1
}

pid_kafka() { cat "$home/launched" 2>/dev/null || true; }

crash_kafka() {
    pid=$(pid_kafka)
    if is_ours "$pid"; then
        kill -KILL "$pid" 2>/dev/null || true
        within "$END_S" are_gone "$pid"
    fi
    rm -f "$home/launched"
}

halt_kafka() {
    pid=$(pid_kafka)
    kill -TERM "$pid" 2>/dev/null && within "$END_S" are_gone "$pid" && rm -f "$home/launched"
}

where_kafka() {
    cat <<END
KAFKA_URL=kafka://127.0.0.1:$1
KAFKA_BOOTSTRAP=127.0.0.1:$1
KAFKA_HOST=127.0.0.1
KAFKA_PORT=$1
KAFKA_SASL_PORT=$sasl_port
KAFKA_CA=$home/ca.pem
KAFKA_DIR=$home
KAFKA_PID_FILE=$home/launched
END
}
