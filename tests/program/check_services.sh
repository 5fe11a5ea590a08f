#!/bin/sh
# check_services.sh DIRECTORY: the two example services that are in there, orders and inventory, on PostgreSQL and
# RabbitMQ; each has a database of its own. Some hundred orders go through, some of them twice and by a foreign client,
# while a process of every kind is killed in the middle of its work. In the end each order has taken its goods once, or
# is one dead letter. SEMEL_TEST_SERVERS says where the servers are.
set -eu
programs=$1
tests=$(cd "$(dirname "$0")" && pwd)
DEADLINE_S=60
STOCK=10000000 # of what does not run out
scratch=$(mktemp -d)
running=''
# shellcheck disable=SC1090 # made by dev/servers
. "$SEMEL_TEST_SERVERS"
export SEMEL_BROKER="$RABBITMQ_URL"
server=${POSTGRES_URL%/*}

fail() {
    echo "check_services: $*" >&2
    inventory show >&2 || true
    tail -n 20 "$scratch"/*.log >&2
    exit 1
}

clean_up() {
    # shellcheck disable=SC2086 # these are words to split
    [ -z "$running" ] || kill -KILL $running 2>/dev/null || true
    wait
    psql -qX "$POSTGRES_URL" -c "DROP DATABASE IF EXISTS orders_$$ WITH (FORCE)" \
        -c "DROP DATABASE IF EXISTS inventory_$$ WITH (FORCE)" >/dev/null 2>&1 || true
    rm -rf "$scratch"
}

# --- what is asked --------------------------------------------------------------------------------------------

in_orders() { psql -qXAt "$server/orders_$$" -c "$1"; }
in_inventory() { psql -qXAt "$server/inventory_$$" -c "$1"; }
broker() { /usr/bin/python3 "$tests/services_broker.py" "$RABBITMQ_URL" "$1"; }

placed() { in_orders 'SELECT count(*) FROM orders'; }
served() { in_inventory 'SELECT sum(served) FROM stock'; }
dead() { in_inventory 'SELECT count(*) FROM semel_dead'; }

has_placed() { [ "$(placed)" -ge "$1" ]; }
has_served() { [ "$(served)" -ge "$1" ]; }
has_settled() { [ "$(($(served) + $(dead)))" -ge "$1" ]; }
has_moved() { [ "$(served)" -gt "$1" ] || has_settled "$2"; } # has_moved SERVED_BEFORE TOTAL
has_sent_all() { [ "$(in_orders 'SELECT count(*) FROM semel_outbox')" = 0 ]; } # what a dead relay had, too
is_empty() { [ "$(broker ready)" = 0 ]; }
# A client that is counted as a consumer may still give something back; the broker takes both in one step.
no_client_consumes() {
    [ "$(/usr/bin/python3 -c 'import pika, sys
connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
print(connection.channel().queue_declare("inventory", passive=True).method.consumer_count)
connection.close()' "$RABBITMQ_URL")" = 0 ]
}
is_done() { within_deadline no_client_consumes && is_empty; }
end_leases() { in_orders 'UPDATE semel_outbox SET wake_ms = captured_ms WHERE token IS NOT NULL'; } # early
is_gone() { case $(sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null) in Z | '') ;; *) return 1 ;; esac }
says() { grep -qF "$2" "$scratch/$1.log"; }

within_deadline() { # within_deadline COMMAND…
    end=$(($(date +%s) + DEADLINE_S))
    until "$@"; do
        [ "$(date +%s)" -lt $end ] || fail "after ${DEADLINE_S} s still not: $*"
        sleep 0.05
    done
}

expect() { # expect WHAT WANTED IS
    [ "$2" = "$3" ] || fail "$1 should be $2, is $3"
}

# --- the services ---------------------------------------------------------------------------------------------

orders() { SEMEL_STORE="$server/orders_$$" "$programs/orders" "$@"; }
inventory() { SEMEL_STORE="$server/inventory_$$" "$programs/inventory" "$@"; }

start() { # start NAME SERVICE [ARGUMENT]: its process is $pid; `exec`, so that it is the program itself
    name=$1 program=$2
    shift 2
    (SEMEL_STORE="$server/${program}_$$" exec "$programs/$program" "$@") >>"$scratch/$name.log" 2>&1 &
    pid=$!
    running="$running $pid"
}
start_inventory() { # start_inventory NAME: and waits until it has made its queue
    start "$1" inventory
    within_deadline says "$1" 'exactly-once effects'
}

forget() { running=$(echo " $running " | sed "s/ $1 / /"); } # its number may be another process's soon

murder() {
    kill -KILL "$1"
    wait "$1" 2>/dev/null || true
    forget "$1"
}

catches_term() { [ $((0x$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status") >> 14 & 1)) = 1 ]; }
is_gone_if_told() { is_gone "$1" || { kill -TERM "$1" && sleep 2 && is_gone "$1"; }; } # a sanitizer may forget a signal
end_well() { # end_well PROCESS: asked to, it ends soon, and says that all is well
    within_deadline catches_term "$1" # it says that it is there a moment before
    kill -TERM "$1"
    soon=$(($(date +%s) + 5))
    until is_gone "$1" || [ "$(date +%s)" -ge $soon ]; do sleep 0.05; done
    within_deadline is_gone_if_told "$1"
    status=0
    wait "$1" || status=$?
    forget "$1"
    expect "the exit status of process $1" 0 $status
}

# --- the story ------------------------------------------------------------------------------------------------

trap clean_up EXIT
trap 'exit 130' INT HUP TERM
psql -qX "$POSTGRES_URL" -c "CREATE DATABASE orders_$$" -c "CREATE DATABASE inventory_$$"
broker clear

orders setup
for item in espresso cappuccino latte; do inventory add $STOCK $item; done
inventory add 5 tea
orders place 50 # before there is a broker to carry them to
start_inventory first && first=$pid
start_inventory second && second=$pid
start relay orders relay && relay=$pid

start shop orders place 1000000 && shop=$pid # it will not come to that
within_deadline has_served 100
murder "$first"
start_inventory first && first=$pid
within_deadline has_served "$(($(served) + 50))"
murder "$relay"
end_leases
within_deadline has_placed "$(($(placed) + 50))"
start relay orders relay && relay=$pid
within_deadline has_placed "$(($(placed) + 50))"
murder "$shop"

in_orders 'SELECT id, item, amount FROM orders LIMIT 150' >"$scratch/copies"
echo 'from-python|latte|3' >>"$scratch/copies"
broker publish <"$scratch/copies"
orders place 3 tea
orders place 3 tea # of which there are two left
orders place 1 sushi
in_orders "SELECT id, item, amount FROM orders WHERE item IN ('tea', 'sushi')" >>"$scratch/copies"
before=$(served)
start shop orders place 100 && shop=$pid
within_deadline has_served $((before + 10))
murder "$second"
broker publish <"$scratch/copies"
start_inventory second && second=$pid
wait "$shop"
forget "$shop"
total=$(($(placed) + 1)) # with the one from Python
# However much the shop has taken meanwhile on a machine that is slow: it is enough that something moves.
until has_settled $total; do
    within_deadline has_moved "$(served)" "$total"
done
within_deadline has_sent_all
end_well "$relay"
within_deadline is_empty
end_well "$first"
end_well "$second"
# What they had in flight has gone back: copies that no consumer has looked at yet. Each round looks at some.
round=0
until is_done; do
    round=$((round + 1))
    [ $round -le 30 ] || fail 'the copies do not come to an end'
    start_inventory "round$round" && last=$pid
    within_deadline is_empty
    end_well "$last"
done

expect 'what is left in the queue' 0 "$(broker ready)"
expect 'the number of orders served or dead' $total "$(($(served) + $(dead)))"
in_orders "SELECT item, $STOCK - sum(amount) - CASE item WHEN 'latte' THEN 3 ELSE 0 END,
                  count(*) + CASE item WHEN 'latte' THEN 1 ELSE 0 END
           FROM orders WHERE item NOT IN ('tea', 'sushi') GROUP BY item ORDER BY item" >"$scratch/wanted"
in_inventory "SELECT item, amount, served FROM stock WHERE item <> 'tea' ORDER BY item" >"$scratch/stock"
diff "$scratch/wanted" "$scratch/stock" || fail 'the stock (>) is not what the orders (<) have left of it'
inventory show >"$scratch/shown"
grep -qx 'tea: 2 left, 1 orders served' "$scratch/shown" || fail 'of five teas three are sold'
expect 'the number of dead letters shown' 2 "$(grep -c '^order .*: not in stock: ' "$scratch/shown")"
