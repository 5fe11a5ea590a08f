# Each tests/test_*.c is a cmocka program and a CTest test of its own; tests/check_*.sh look at what was
# built, and are run where it was built plainly: without a sanitizer.
enable_testing()

add_library(semel_tests INTERFACE)
target_include_directories(semel_tests INTERFACE tests)
target_compile_definitions(semel_tests INTERFACE SEMEL_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                                 SEMEL_BINARY_DIR="${PROJECT_BINARY_DIR}")
target_link_libraries(semel_tests INTERFACE semel_internal PkgConfig::semel_tests)

file(GLOB support_sources CONFIGURE_DEPENDS tests/support/*.c)
if(NOT SEMEL_WITH_POSTGRES AND NOT SEMEL_WITH_MARIADB)
  list(FILTER support_sources EXCLUDE REGEX "/server_[a-z]+\\.c$")
endif()
if(NOT SEMEL_WITH_RABBITMQ)
  list(FILTER support_sources EXCLUDE REGEX "/broker(_ctl)?\\.c$")
endif()
if(support_sources)
  add_library(semel_support STATIC ${support_sources})
  target_link_libraries(semel_support PUBLIC semel_tests)
endif()

# A report ends the test, says where, and is not taken for an ordinary failure by cmocka's own handlers.
set(environment
    "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:allow_user_segv_handler=0"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:die_after_fork=0")

function(semel_add_test NAME)
  add_test(NAME ${NAME} COMMAND ${ARGN})
  set_tests_properties(${NAME} PROPERTIES TIMEOUT 300 ENVIRONMENT "${environment}")
endfunction()

# Tests that need a server have its name in theirs, and are built if its store or transport is. CTest starts the servers
# before the first of them and stops them after the last; SEMEL_TEST_SERVERS says where they are. A test
# that does not reach its server fails.
set(servers "")
foreach(name IN ITEMS postgres mariadb rabbitmq)
  string(TOUPPER ${name} NAME)
  if(SEMEL_WITH_${NAME})
    list(APPEND servers ${name})
  endif()
endforeach()
set(store_servers ${servers})
list(REMOVE_ITEM store_servers rabbitmq)
if(servers)
  set(state ${PROJECT_BINARY_DIR}/servers.env)
  list(APPEND environment "SEMEL_TEST_SERVERS=${state}")
  add_test(NAME servers_start COMMAND ${PROJECT_SOURCE_DIR}/dev/servers start --watch ${state} ${servers})
  add_test(NAME servers_stop COMMAND ${PROJECT_SOURCE_DIR}/dev/servers stop ${state})
  set_tests_properties(servers_start PROPERTIES FIXTURES_SETUP servers TIMEOUT 120)
  set_tests_properties(servers_stop PROPERTIES FIXTURES_CLEANUP servers TIMEOUT 120)
endif()

# Which servers a test of this name needs.
function(semel_servers_of NAME OUT)
  set(needed "")
  if(NAME MATCHES "^test_servers")
    set(needed ${store_servers}) # it runs on those that are built in
    if(NOT store_servers)
      set(needed postgres)
    endif()
  elseif(NAME MATCHES "^test_(store_|transport_)?(postgres|mariadb|rabbitmq)")
    set(needed ${CMAKE_MATCH_2})
    if(NAME MATCHES "^test_rabbitmq_servers")
      list(APPEND needed ${store_servers})
    endif()
  endif()
  set(${OUT} "${needed}" PARENT_SCOPE)
endfunction()

file(GLOB tests CONFIGURE_DEPENDS tests/test_*.c)
if(NOT SEMEL_WITH_RABBITMQ) # what needs its code, but no server
  list(FILTER tests EXCLUDE REGEX "/test_amqp_[a-z_]+\\.c$")
endif()
# What a sanitizer has nothing to say about is left to the plain build and the other one: threads where there is one,
# memory where the matter is who comes first, and the tests of the tests' own tools.
if(SEMEL_SANITIZE STREQUAL "thread")
  list(FILTER tests EXCLUDE REGEX "/test_(oom|amqp|crash|servers_crash|cloudevent|json|url|key|formats|rabbitmq_broker|rabbitmq_servers_kill)[a-z_]*\\.c$")
elseif(SEMEL_SANITIZE STREQUAL "address")
  list(FILTER tests EXCLUDE REGEX "/test_(servers_crowds|servers_hot|rabbitmq_broker)\\.c$")
endif()
foreach(test IN LISTS tests)
  get_filename_component(name ${test} NAME_WE)
  semel_servers_of(${name} needed)
  set(missing ${needed})
  list(REMOVE_ITEM missing ${servers} "")
  if(missing)
    continue()
  endif()
  add_executable(${name} ${test})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY tests)
  target_link_libraries(${name} PRIVATE $<TARGET_NAME_IF_EXISTS:semel_support> semel_tests)
  semel_add_test(${name} ${name})
  if(name MATCHES "^test_(servers_crash|servers_lost|oom_sqlite|rabbitmq_(trouble|lost))$")
    set_tests_properties(${name} PROPERTIES COST 100) # the long ones first, so that nobody waits for them in the end
  endif()
  if(name STREQUAL "test_servers_hot")
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON) # 64 threads: beside it others starve
  endif()
  if(needed)
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED servers)
  endif()
endforeach()

function(semel_add_script NAME SCRIPT)
  semel_add_test(${NAME} sh ${PROJECT_SOURCE_DIR}/tests/${SCRIPT} ${ARGN})
endfunction()

foreach(example IN LISTS examples)
  get_filename_component(name ${example} NAME_WE)
  semel_add_script(example_${name} run_in_scratch.sh $<TARGET_FILE:example_${name}>)
endforeach()

if(store_servers AND NOT SEMEL_SANITIZE)
  semel_add_script(example_first_everywhere check_first.sh ${CMAKE_C_COMPILER} ${PROJECT_SOURCE_DIR}
                   $<TARGET_FILE_DIR:semel>)
  semel_add_script(example_queued_everywhere check_queued.sh $<TARGET_FILE:example_queued>)
  set_tests_properties(example_first_everywhere example_queued_everywhere PROPERTIES FIXTURES_REQUIRED servers)
endif()

if(services)
  semel_add_script(example_services check_services.sh $<TARGET_FILE_DIR:example_orders>)
  set_tests_properties(example_services PROPERTIES FIXTURES_REQUIRED servers)
endif()

semel_add_script(demo check_demo.sh $<TARGET_FILE:semel_program>)

if(SEMEL_SANITIZE)
  return()
endif()
find_program(SEMEL_CXX NAMES c++ g++ clang++ DOC "To see that the public headers are C++, too")
semel_add_script(headers_c11 check_headers.sh ${CMAKE_C_COMPILER} -std=c11 -x c)
semel_add_script(headers_cxx17 check_headers.sh ${SEMEL_CXX} -std=c++17 -x c++)
semel_add_script(exports_shared check_exports.sh ${CMAKE_NM} $<TARGET_FILE:semel>)
semel_add_script(exports_static check_exports.sh ${CMAKE_NM} $<TARGET_FILE:semel_static>)
semel_add_script(manners check_manners.sh ${CMAKE_NM} $<TARGET_FILE:semel_static>)
semel_add_script(install check_install.sh ${PROJECT_BINARY_DIR})
