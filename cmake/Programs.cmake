# The program, the benchmark (target `bench`, not part of `all`) and the examples. Each has SQLite in it.

if(NOT SEMEL_WITH_SQLITE)
  return()
endif()

# Linked to the archive, so that the one file can be copied elsewhere. Public headers only.
file(GLOB program_sources CONFIGURE_DEPENDS src/cli/*.c src/cli/demo/*.c src/program/*.c)
add_executable(semel_program ${program_sources})
set_target_properties(semel_program PROPERTIES OUTPUT_NAME semel)
target_include_directories(semel_program PRIVATE src/cli)
target_link_libraries(semel_program PRIVATE semel_flags semel_static)

# What the tests and the benchmark link: all of the library, with nothing hidden, and the test kit.
add_library(semel_internal STATIC EXCLUDE_FROM_ALL ${objects} $<TARGET_OBJECTS:semel_test_objects>)
set_target_properties(semel_internal PROPERTIES LINKER_LANGUAGE C)
target_include_directories(semel_internal PUBLIC include src ${PROJECT_BINARY_DIR})
target_link_libraries(semel_internal PUBLIC semel_flags ${libraries})

# It measures the servers that are built in, and starts them by way of dev/servers. A file with the name of a backend in
# its own needs that backend; the broker of the sections is RabbitMQ.
file(GLOB bench_sources CONFIGURE_DEPENDS bench/*.c)
foreach(name IN LISTS SEMEL_BACKENDS_LEFT_OUT)
  list(FILTER bench_sources EXCLUDE REGEX "/[a-z]+_${name}[_.][^/]*$")
endforeach()
if(NOT SEMEL_WITH_RABBITMQ)
  list(FILTER bench_sources EXCLUDE REGEX "/section_broker")
endif()
if(bench_sources)
  add_executable(semel-bench EXCLUDE_FROM_ALL ${bench_sources})
  target_link_libraries(semel-bench PRIVATE semel_internal)
  target_compile_definitions(semel-bench
                             PRIVATE SEMEL_BENCH_SERVERS="${PROJECT_SOURCE_DIR}/dev/servers")
  add_custom_target(bench DEPENDS semel-bench)
endif()

# Compiled as a reader of the docs would: the compiler's own dialect, public headers, the shared library.
# Two of them are services, which need servers: tests/program/check_services.sh runs those.
file(GLOB examples CONFIGURE_DEPENDS examples/*.c)
set(services ${examples})
list(FILTER services INCLUDE REGEX "/(orders|inventory)\\.c$")
list(REMOVE_ITEM examples ${services})
if(NOT SEMEL_WITH_POSTGRES OR NOT SEMEL_WITH_RABBITMQ)
  set(services "")
endif()
foreach(example IN LISTS examples services)
  get_filename_component(name ${example} NAME_WE)
  add_executable(example_${name} ${example})
  set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name} C_EXTENSIONS ON
                                                   RUNTIME_OUTPUT_DIRECTORY examples)
  target_link_libraries(example_${name} PRIVATE semel)
endforeach()
target_sources(example_own_store PRIVATE examples/own_store/filestore.c)
if(services) # its handler works on the connection itself
  target_link_libraries(example_inventory PRIVATE PkgConfig::semel_postgres)
endif()
