# The front door. CMake does the work; dev/ holds what is called here.
PREFIX  ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60

.PHONY: build release run demo test test-kafka test-newer-nats test-sanitizers soak fuzz bench screenshots check
.PHONY: format install clean help

build: release ## the library and the program, into build/release (this is the default)
	@echo "libsemel and semel are in build/release; 'make help' says what else there is"

run: release ## a shop that runs by one file of YAML, with orders coming in several times each; Ctrl-C ends it
	@dev/run

demo: release ## watch a shop that is killed again and again and charges no customer twice
	@build/release/semel demo

test: ## all tests, on all stores and brokers
	@dev/setup test
	@dev/test debug

test-kafka: ## the Kafka transport on a real broker, which comes from Maven Central
	@dev/setup test kafka
	@dev/test --apart kafka debug

test-newer-nats: ## the NATS transport on a newer server, with sync_interval: always; Go builds it
	@dev/setup test newer-nats
	@dev/test --apart newer-nats debug

test-sanitizers: ## the tests again, under the address, undefined behaviour and thread sanitizers
	@dev/setup test sanitizers
	@dev/test address thread

soak: ## ten minutes of messages, with processes and servers killed (SOAK='--minutes 0 --messages 10000': short)
	@dev/setup test
	@dev/build debug
	@build/debug/semel-soak $(SOAK)

fuzz: ## libFuzzer on everything that reads what others wrote, FUZZ_SECONDS (60) for each target
	@dev/setup fuzz
	@FUZZ_SECONDS='$(FUZZ_SECONDS)' dev/fuzz

bench: release ## what semel costs, against the same work by hand (BENCH=--full: longer; BENCH='--only run-sql')
	@dev/setup servers
	@dev/build release bench
	@build/release/semel-bench $(BENCH)

screenshots: ## pictures of the page for docs/page, made by its tests
	@dev/setup test
	@dev/build debug
	@dev/screenshots

check: ## format, include direction, banned functions, lengths, columns, scripts, static analysis (CHECKS='tidy': these)
	@dev/setup check
	@dev/check $(CHECKS)

format: ## lay out all C files as .clang-format says
	@dev/setup check
	@dev/sources | xargs clang-format -i

install: release ## into PREFIX (/usr/local), under DESTDIR if that is set
	@DESTDIR='$(DESTDIR)' cmake --install build/release --prefix '$(PREFIX)'
	@if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ]; then /sbin/ldconfig; fi

clean: ## remove build/
	rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

release:
	@dev/setup build
	@echo "building semel"
	@CMAKE_ARGS='-DCMAKE_INSTALL_PREFIX=$(PREFIX)' dev/build release
