# semel-soak: messages end to end, through a broker, on SQLite and PostgreSQL, while processes and servers are killed.
# It starts servers of its own. `make soak` is the long run; CTest has a short one on PostgreSQL, and a shorter one on
# SQLite: in the sanitized builds, and with messages as effects in the others; and one each on NATS, on Redis Streams
# and on the Redis store. tests/soak/brokers.h says what another broker needs.

if(NOT SEMEL_WITH_RABBITMQ OR NOT SEMEL_WITH_POSTGRES)
  return()
endif()

file(GLOB soak_sources CONFIGURE_DEPENDS tests/soak/*.c)
foreach(name IN LISTS SEMEL_BACKENDS_LEFT_OUT)
  list(FILTER soak_sources EXCLUDE REGEX "/broker_${name}[_.][^/]*$")
endforeach()
add_executable(semel-soak ${soak_sources})
target_include_directories(semel-soak PRIVATE tests/soak)
target_link_libraries(semel-soak PRIVATE semel_support semel_tests)

if(SEMEL_SANITIZE)
  semel_add_test(soak_processes semel-soak --minutes 0 --messages 1000 --kills 4 --spare-servers --store sqlite)
  set(soak soak_processes)
else()
  semel_add_test(soak_short semel-soak --minutes 0 --messages 3000 --kills 12 --store postgres)
  semel_add_test(soak_message semel-soak --minutes 0 --messages 1000 --kills 4 --spare-servers --store sqlite --effect
                 message)
  set(soak soak_short soak_message)
endif()
set_tests_properties(${soak} PROPERTIES LABELS soak)
semel_wide(${soak}) # a dozen processes

# Some seconds each, in which they mostly wait for what a killed process had to come again; so they begin early.
function(semel_add_brief_soak NAME)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "BROKER;STORE;MESSAGES" "")
  string(TOUPPER "${ARG_BROKER}" broker)
  string(TOUPPER "${ARG_STORE}" store)
  if(SEMEL_SANITIZE OR NOT SEMEL_WITH_${broker} OR NOT SEMEL_WITH_${store})
    return()
  endif()
  semel_add_test(${NAME} semel-soak --minutes 0 --messages ${ARG_MESSAGES} --kills 4 --broker ${ARG_BROKER} --store
                 ${ARG_STORE} ${ARG_UNPARSED_ARGUMENTS})
  set_tests_properties(${NAME} PROPERTIES LABELS soak COST 500)
endfunction()
# One message at a time. The server is not killed: 2.9 may then stand still (docs/NATS.md); `make test-newer-nats` does.
semel_add_brief_soak(soak_nats BROKER nats STORE sqlite MESSAGES 300 --spare-servers)
semel_add_brief_soak(soak_streams BROKER redis STORE sqlite MESSAGES 600)
semel_add_brief_soak(soak_redis BROKER redis STORE redis MESSAGES 600)

# For `make test-kafka` and `make test-newer-nats`, with the tests that need these, too.
foreach(name IN LISTS apart)
  semel_add_test(soak_${name} semel-soak --broker ${apart_server_${name}} --minutes 0 --messages 2000 --kills 10
                 --store sqlite)
  semel_set_apart(soak_${name} ${name})
  set_tests_properties(soak_${name} PROPERTIES COST 1000)
endforeach()
