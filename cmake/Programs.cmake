# The program, the benchmark (target `bench`, not part of `all`) and the examples. Each has SQLite in it.

if(NOT SEMEL_WITH_SQLITE)
  return()
endif()

# The program: libyaml reads its configuration, json-c the messages, libcurl calls HTTP handlers, libmicrohttpd is
# called by others. It is not built if one of them, or OpenSSL, is left out.
set(SEMEL_WITH_PROGRAM OFF)
if(SEMEL_WITH_JSON AND SEMEL_WITH_OPENSSL)
  pkg_check_modules(semel_yaml QUIET IMPORTED_TARGET GLOBAL yaml-0.1)
  pkg_check_modules(semel_curl QUIET IMPORTED_TARGET GLOBAL libcurl)
  pkg_check_modules(semel_microhttpd QUIET IMPORTED_TARGET GLOBAL libmicrohttpd)
  pkg_check_modules(semel_zlib QUIET IMPORTED_TARGET GLOBAL zlib) # optional: spans are compressed
  if(semel_yaml_FOUND AND semel_curl_FOUND AND semel_microhttpd_FOUND)
    set(SEMEL_WITH_PROGRAM ON)
  endif()
endif()

# Its code is on public headers only, and its tests link it, too. One leaf of the library, which does not leave it, is
# compiled in.
if(SEMEL_WITH_PROGRAM)
  include(cmake/Page.cmake)
  file(GLOB_RECURSE program_sources CONFIGURE_DEPENDS src/program/*.c)
  list(REMOVE_ITEM program_sources ${PROJECT_SOURCE_DIR}/src/program/main.c)
  add_library(semel_program_code STATIC EXCLUDE_FROM_ALL ${program_sources} src/base/nearest.c ${page_assets})
  target_include_directories(semel_program_code PUBLIC include src)
  target_link_libraries(semel_program_code PUBLIC semel_flags PkgConfig::semel_yaml PkgConfig::semel_curl
                                                  PkgConfig::semel_microhttpd PkgConfig::semel_json
                                                  PkgConfig::semel_openssl PkgConfig::semel_sqlite Threads::Threads)
  if(semel_zlib_FOUND)
    target_link_libraries(semel_program_code PUBLIC PkgConfig::semel_zlib)
    target_compile_definitions(semel_program_code PRIVATE SEMEL_WITH_ZLIB)
  endif()
  foreach(name IN ITEMS postgres mariadb) # `semel test --store` looks into its databases
    string(TOUPPER ${name} option)
    if(SEMEL_WITH_${option})
      target_link_libraries(semel_program_code PUBLIC PkgConfig::semel_${name})
    endif()
  endforeach()

  # Linked to the archive, so that the one file can be copied elsewhere.
  add_executable(semel_program src/program/main.c)
  set_target_properties(semel_program PROPERTIES OUTPUT_NAME semel)
  target_link_libraries(semel_program PRIVATE semel_program_code semel_static)

  # What is installed beside the program, made by the program itself: manual pages, completion, an example. A build
  # with a sanitizer is not installed, and may not run without ado.
  if(NOT SEMEL_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    set(dist_dir ${PROJECT_BINARY_DIR}/dist)
    add_custom_command(OUTPUT ${dist_dir}/semel.1
                       COMMAND ${PROJECT_SOURCE_DIR}/dev/dist $<TARGET_FILE:semel_program> ${dist_dir}
                       DEPENDS semel_program dev/dist man/semel.1.in man/semel.yaml.5.in VERBATIM)
    add_custom_target(semel_dist ALL DEPENDS ${dist_dir}/semel.1)
  endif()
endif()

# What the tests and the benchmark link: all of the library, with nothing hidden, and the test kit.
add_library(semel_internal STATIC EXCLUDE_FROM_ALL ${objects} $<TARGET_OBJECTS:semel_test_objects>)
set_target_properties(semel_internal PROPERTIES LINKER_LANGUAGE C)
target_include_directories(semel_internal PUBLIC include src ${PROJECT_BINARY_DIR})
target_link_libraries(semel_internal PUBLIC semel_flags ${libraries})

# It measures the servers that are built in, and starts them by way of dev/servers. A file with the name of a backend in
# its own needs that backend. It starts the program that is beside it, and calls HTTP as the program does. The keyed
# layer is measured on the database in memory that its tests have.
file(GLOB bench_sources CONFIGURE_DEPENDS bench/*.c)
foreach(name IN LISTS SEMEL_BACKENDS_LEFT_OUT)
  list(FILTER bench_sources EXCLUDE REGEX "/[a-z]+_${name}[_.][^/]*$")
endforeach()
file(GLOB bench_keyed CONFIGURE_DEPENDS tests/support/keyed/memory_*.c)
if(bench_sources AND SEMEL_WITH_PROGRAM)
  add_executable(semel-bench EXCLUDE_FROM_ALL ${bench_sources} ${bench_keyed})
  target_include_directories(semel-bench PRIVATE tests)
  target_link_libraries(semel-bench PRIVATE semel_internal PkgConfig::semel_curl m)
  target_compile_definitions(semel-bench
                             PRIVATE SEMEL_BENCH_SERVERS="${PROJECT_SOURCE_DIR}/dev/servers")
  add_executable(semel-bench-plain EXCLUDE_FROM_ALL bench/plain/plain.c)
  target_link_libraries(semel-bench-plain PRIVATE semel_program_code semel_static)
  add_custom_target(bench DEPENDS semel-bench semel-bench-plain semel_program)
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
target_sources(example_own_keyed PRIVATE examples/own_keyed/liststore.c)
if(services) # its handler works on the connection itself
  target_link_libraries(example_inventory PRIVATE PkgConfig::semel_postgres)
endif()
