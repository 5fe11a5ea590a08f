# semel-soak: messages end to end, through a broker, on SQLite and PostgreSQL, while processes and servers are killed.
# It starts servers of its own. `make soak` is the long run; CTest has a short one on PostgreSQL, and a shorter one on
# SQLite: in the sanitized builds, and with messages as effects in the others. tests/soak/brokers.h says what another
# broker needs.

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

# For `make test-kafka` and `make test-newer-nats`, with the tests that need these, too.
foreach(name IN LISTS apart)
  semel_add_test(soak_${name} semel-soak --broker ${apart_server_${name}} --minutes 0 --messages 2000 --kills 10
                 --store sqlite)
  semel_set_apart(soak_${name} ${name})
  set_tests_properties(soak_${name} PROPERTIES COST 1000)
endforeach()
