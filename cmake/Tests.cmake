# The tests lie in directories by subject: tests/unit, tests/store/postgres, ... Each test_*.c is a cmocka program and a
# CTest test of its own, whose label is its directory: `ctest -L store/postgres`. The CMakeLists.txt of a directory says
# what its tests have in common: which servers they need, and which of them run first, as two, or not under a sanitizer.
enable_testing()
set(tests_dir ${PROJECT_SOURCE_DIR}/tests)

add_library(semel_tests INTERFACE)
target_include_directories(semel_tests INTERFACE tests)
target_compile_definitions(semel_tests INTERFACE SEMEL_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                                 SEMEL_BINARY_DIR="${PROJECT_BINARY_DIR}")
target_link_libraries(semel_tests INTERFACE semel_internal PkgConfig::semel_tests)

# In the debug build tests are compiled without optimisation, which takes a third less time. What is tested keeps its
# own, and what of the tests works for long has more. So gcc's warnings that need an
# optimiser (-Wmaybe-uninitialized, ...) are about the library and the program, not about tests.
if(NOT SEMEL_SANITIZE AND CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_options(semel_tests INTERFACE -O0)
endif()

# Some two hundred programs with all of the library in each: lld takes a third of the processor time of GNU ld. Only
# for them; what users get is linked as they would.
find_program(SEMEL_LLD ld.lld DOC "Links the tests, if it is there")
mark_as_advanced(SEMEL_LLD)
if(SEMEL_LLD)
  target_link_options(semel_tests INTERFACE -fuse-ld=lld)
endif()

# Tests that need a server are built if its store or transport is. CTest starts the servers before the first of these
# tests and stops them after the last; SEMEL_TEST_SERVERS says where they are. A test that does not reach its server
# fails.
set(servers "")
foreach(name IN ITEMS postgres mariadb redis dynamodb rabbitmq nats)
  string(TOUPPER ${name} NAME)
  if(SEMEL_WITH_${NAME})
    list(APPEND servers ${name})
  endif()
endforeach()
set(store_servers ${servers}) # with SQL
list(REMOVE_ITEM store_servers rabbitmq nats redis dynamodb)

# What stands apart needs more than Debian's packages. Each has a target of its own, `make test-NAME`, and `make test`
# leaves out the tests with its label, apart/NAME. It has a fixture and a file of its own; apart_server_NAME is what
# dev/servers starts for it, and apart_environment_NAME is set there and in its tests.
set(apart "")
if(SEMEL_WITH_KAFKA)
  list(APPEND apart kafka)
endif()
set(apart_server_kafka kafka)
set(apart_environment_kafka "")
if(SEMEL_WITH_NATS AND NOT SEMEL_SANITIZE) # the tests that Debian's server has under the sanitizers, too
  list(APPEND apart newer-nats)
endif()
set(apart_server_newer-nats nats)
set(apart_environment_newer-nats SEMEL_NATS_SERVER=newer "SEMEL_NATS_JETSTREAM=sync_interval: always")

file(GLOB_RECURSE support_sources CONFIGURE_DEPENDS tests/support/*.c)
if(NOT store_servers)
  list(FILTER support_sources EXCLUDE REGEX "/support/servers/sql/")
endif()
if(NOT SEMEL_WITH_RABBITMQ)
  list(FILTER support_sources EXCLUDE REGEX "/support/servers/rabbitmq/")
endif()
if(NOT SEMEL_WITH_NATS)
  list(FILTER support_sources EXCLUDE REGEX "/support/servers/nats/")
endif()
if(NOT SEMEL_WITH_KAFKA)
  list(FILTER support_sources EXCLUDE REGEX "/support/servers/kafka/")
endif()
list(FILTER support_sources EXCLUDE REGEX "/mock_kafka\\.c$") # a program (tests/transport/kafka)
add_library(semel_support STATIC ${support_sources})
target_link_libraries(semel_support PUBLIC semel_tests)
set(working_sources ${support_sources})
list(FILTER working_sources INCLUDE REGEX "/support/keyed/")
if(NOT SEMEL_SANITIZE)
  set_source_files_properties(${working_sources} PROPERTIES COMPILE_OPTIONS -O2)
endif()

# A report ends the test, says where, and is not taken for an ordinary failure by cmocka's own handlers.
set(environment
    "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:allow_user_segv_handler=0"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:die_after_fork=0")

if(servers)
  set(state ${PROJECT_BINARY_DIR}/servers.env)
  list(APPEND environment "SEMEL_TEST_SERVERS=${state}")
  add_test(NAME servers_start COMMAND ${PROJECT_SOURCE_DIR}/dev/servers start --watch --template ${state} ${servers})
  add_test(NAME servers_stop COMMAND ${PROJECT_SOURCE_DIR}/dev/servers stop ${state})
  set_tests_properties(servers_start PROPERTIES FIXTURES_SETUP servers TIMEOUT 120)
  set_tests_properties(servers_stop PROPERTIES FIXTURES_CLEANUP servers TIMEOUT 120)
endif()

foreach(name IN LISTS apart)
  set(apart_state_${name} ${PROJECT_BINARY_DIR}/${name}.env)
  add_test(NAME ${name}_start COMMAND ${PROJECT_SOURCE_DIR}/dev/servers start --watch ${apart_state_${name}}
                                      ${apart_server_${name}})
  add_test(NAME ${name}_stop COMMAND ${PROJECT_SOURCE_DIR}/dev/servers stop ${apart_state_${name}})
  set_tests_properties(${name}_start PROPERTIES FIXTURES_SETUP ${name})
  set_tests_properties(${name}_stop PROPERTIES FIXTURES_CLEANUP ${name})
  set_tests_properties(${name}_start PROPERTIES TIMEOUT 1800) # it may be built, or brought from afar
  set_tests_properties(${name}_stop PROPERTIES TIMEOUT 120)
  set_tests_properties(${name}_start ${name}_stop PROPERTIES LABELS apart/${name}
                                                             ENVIRONMENT "${apart_environment_${name}}")
endforeach()

# A test of the directory that calls this. What is not below tests/ has no label.
function(semel_add_test NAME)
  add_test(NAME ${NAME} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_BINARY_DIR})
  set_tests_properties(${NAME} PROPERTIES TIMEOUT 600 ENVIRONMENT "${environment}")
  file(RELATIVE_PATH label ${tests_dir} ${CMAKE_CURRENT_SOURCE_DIR})
  if(NOT label MATCHES "^\\.\\.")
    set_tests_properties(${NAME} PROPERTIES LABELS "${label}")
  endif()
endfunction()

# A test that needs what stands apart, and is left out of `make test`.
function(semel_set_apart NAME APART)
  set_tests_properties(${NAME} PROPERTIES FIXTURES_REQUIRED ${APART})
  set_property(TEST ${NAME} APPEND PROPERTY LABELS apart/${APART})
  set_property(TEST ${NAME} APPEND PROPERTY ENVIRONMENT SEMEL_TEST_SERVERS=${apart_state_${APART}}
                                                        ${apart_environment_${APART}})
endfunction()

# They count as two tests. CTest passes over such a test as long as only one place is free, so it would wait for the
# end of a run: they begin before all others, one behind the other.
function(semel_wide)
  set_tests_properties(${ARGN} PROPERTIES PROCESSORS 2 COST 1000)
endfunction()

# With a list of servers: an entry for each of them, which run side by side.
function(semel_add_cmocka_test NAME)
  add_executable(${NAME} ${NAME}.c)
  set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${NAME} PRIVATE ${ARG_LINK} ${kit} semel_support semel_tests)
  foreach(entry IN LISTS ARGN)
    semel_add_test(${NAME}_${entry} ${NAME})
    set_property(TEST ${NAME}_${entry} APPEND PROPERTY ENVIRONMENT SEMEL_TEST_SERVER=${entry})
  endforeach()
  if(NOT ARGN)
    semel_add_test(${NAME} ${NAME})
  endif()
endfunction()

# All test_*.c of the directory that calls this. They are linked with the other *.c there, which they share.
#
#   semel_add_directory([SERVERS name...]           they need these servers; without one of them nothing is built
#                       [NOT_UNDER_THREAD name...]  left out there, because this sanitizer has nothing to say about
#                       [NOT_UNDER_ADDRESS name...] them; ALL: the whole directory
#                       [FIRST name...]             the long ones, so that a parallel run does not end with them
#                       [ONE_EACH name...]          an entry of CTest for each of the servers: name_server
#                       [WIDE name...]              with so many threads that one counts as two tests
#                       [ALSO name]                 all of them once more, on what stands apart: test_NAME_on_name
#                       [LINK library...])          they need this, too
function(semel_add_directory)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "ALSO"
                        "SERVERS;NOT_UNDER_THREAD;NOT_UNDER_ADDRESS;FIRST;ONE_EACH;WIDE;LINK")
  file(GLOB names CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} test_*.c)
  list(TRANSFORM names REPLACE "\\.c$" "")
  foreach(name IN LISTS ARG_NOT_UNDER_THREAD ARG_NOT_UNDER_ADDRESS ARG_FIRST ARG_ONE_EACH ARG_WIDE
               ARG_UNPARSED_ARGUMENTS)
    if(NOT name IN_LIST names AND NOT name STREQUAL "ALL")
      message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR}: there is no ${name}.c")
    endif()
  endforeach()
  foreach(server IN LISTS ARG_SERVERS)
    if(NOT server IN_LIST servers AND NOT server IN_LIST apart)
      return()
    endif()
  endforeach()
  file(GLOB shared CONFIGURE_DEPENDS *.c)
  list(FILTER shared EXCLUDE REGEX "/test_[^/]*$")
  set(kit "")
  if(shared)
    file(RELATIVE_PATH kit ${tests_dir} ${CMAKE_CURRENT_SOURCE_DIR})
    string(REPLACE "/" "_" kit semel_tests_${kit})
    add_library(${kit} STATIC ${shared})
    target_link_libraries(${kit} PUBLIC ${ARG_LINK} semel_support semel_tests)
  endif()
  string(TOUPPER "${SEMEL_SANITIZE}" sanitizer)
  set(left_out ${ARG_NOT_UNDER_${sanitizer}})
  foreach(name IN LISTS names)
    if(name IN_LIST left_out OR "ALL" IN_LIST left_out)
      continue()
    endif()
    set(entries ${name})
    if(name IN_LIST ARG_ONE_EACH)
      semel_add_cmocka_test(${name} ${ARG_SERVERS})
      list(TRANSFORM ARG_SERVERS PREPEND ${name}_ OUTPUT_VARIABLE entries)
    else()
      semel_add_cmocka_test(${name})
    endif()
    if(name IN_LIST ARG_FIRST)
      set_tests_properties(${entries} PROPERTIES COST 100)
    endif()
    if(name IN_LIST ARG_WIDE)
      semel_wide(${entries})
    endif()
    if(ARG_SERVERS IN_LIST apart) # alone: no test needs it and another one
      semel_set_apart(${entries} ${ARG_SERVERS})
    elseif(ARG_SERVERS)
      set_tests_properties(${entries} PROPERTIES FIXTURES_REQUIRED servers)
    endif()
    if(ARG_ALSO IN_LIST apart)
      semel_add_test(${name}_on_${ARG_ALSO} ${name})
      set_tests_properties(${name}_on_${ARG_ALSO} PROPERTIES LABELS "")
      semel_set_apart(${name}_on_${ARG_ALSO} ${ARG_ALSO})
    endif()
  endforeach()
endfunction()

file(GLOB_RECURSE directories CONFIGURE_DEPENDS tests/CMakeLists.txt)
foreach(file IN LISTS directories)
  get_filename_component(directory ${file} DIRECTORY)
  add_subdirectory(${directory})
endforeach()

# A test in a directory that says nothing would not be run.
file(GLOB_RECURSE sources CONFIGURE_DEPENDS tests/test_*.c)
foreach(source IN LISTS sources)
  get_filename_component(directory ${source} DIRECTORY)
  if(NOT EXISTS ${directory}/CMakeLists.txt)
    message(FATAL_ERROR "${source}: its directory has no CMakeLists.txt, so it would not be run")
  endif()
endforeach()
