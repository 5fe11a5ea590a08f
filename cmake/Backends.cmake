# The one list of backends. Each is a directory, src/store/NAME or src/transport/NAME, whose CMakeLists.txt calls
# semel_backend(). The options, the registries, the version line, the summary and the installed packages come from
# these lists; dev/backends reads the same directories for the scripts.
set(SEMEL_STORES memory sqlite postgres mariadb redis dynamodb)
set(SEMEL_TRANSPORTS memory rabbitmq nats kafka redis store)

# Schemes of backends that are planned: their users read "not built in" and not "unknown".
set(SEMEL_PLANNED_STORE)
set(SEMEL_PLANNED_TRANSPORT)

# semel_backend(store|transport NAME
#               SCHEMES scheme…               what a URL begins with; the first is the usual one
#               [TITLE text]                  for the summary and for -D SEMEL_NAME; NAME if it is left out
#               [LIBRARIES module=package…]   what pkg-config calls it, and the Debian package that has it
#               [HEADERS prefix…]             the headers of these libraries, for dev/check-includes
#               [DEFINITIONS definition…]     for the sources of this backend only
#               [MIGRATIONS]                  sql/NAME is compiled in, as generated/NAME_migrations.h
#               [PUBLIC])                     <semel/NAME.h> includes a header of the library, so its users link it
#
# Compiles the C files of the directory that calls it. They define NAME_store_driver or NAME_transport_driver. A backend
# without LIBRARIES is always built in.
function(semel_backend KIND NAME)
  cmake_parse_arguments(PARSE_ARGV 2 arg "MIGRATIONS;PUBLIC" "TITLE" "SCHEMES;LIBRARIES;HEADERS;DEFINITIONS")
  if(NOT KIND MATCHES "^(store|transport)$" OR NOT arg_SCHEMES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "semel_backend(${ARGV}): see cmake/Backends.cmake. Not understood: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  string(TOUPPER ${NAME} OPTION)
  set(SEMEL_WITH_${OPTION} ON)
  if(arg_LIBRARIES)
    list(TRANSFORM arg_LIBRARIES REPLACE "=.*" "" OUTPUT_VARIABLE modules)
    list(TRANSFORM arg_LIBRARIES REPLACE ".*=" "" OUTPUT_VARIABLE packages)
    semel_option(${OPTION} "${modules}" "${packages}" "The ${arg_TITLE} ${KIND}")
    set_property(GLOBAL PROPERTY SEMEL_ABOUT_${KIND}_${NAME} "${SEMEL_ABOUT_${OPTION}}")
  endif()
  set_property(GLOBAL PROPERTY SEMEL_WITH_${OPTION} ${SEMEL_WITH_${OPTION}})
  semel_register(${KIND} ${NAME} ${SEMEL_WITH_${OPTION}} ${arg_SCHEMES})
  if(NOT SEMEL_WITH_${OPTION})
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY SEMEL_BUILT_IN_${KIND} ${NAME})
  if(arg_PUBLIC)
    set_property(GLOBAL APPEND PROPERTY SEMEL_PUBLIC_LIBRARIES semel_${NAME})
  endif()

  file(GLOB sources CONFIGURE_DEPENDS *.c)
  add_library(semel_${KIND}_${NAME} OBJECT ${sources})
  target_include_directories(semel_${KIND}_${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                                                           ${PROJECT_BINARY_DIR})
  target_compile_definitions(semel_${KIND}_${NAME} PRIVATE ${arg_DEFINITIONS})
  target_link_libraries(semel_${KIND}_${NAME} PRIVATE semel_flags Threads::Threads)
  if(arg_LIBRARIES)
    target_link_libraries(semel_${KIND}_${NAME} PRIVATE PkgConfig::semel_${NAME})
  endif()
  if(arg_MIGRATIONS)
    semel_embed_migrations(semel_${KIND}_${NAME} ${NAME})
  endif()
endfunction()

# Migrations are files that a person can read and compare; the library has them as C.
function(semel_embed_migrations TARGET NAME)
  set(directory ${PROJECT_SOURCE_DIR}/sql/${NAME})
  set(script ${PROJECT_SOURCE_DIR}/cmake/EmbedSql.cmake)
  set(generated ${PROJECT_BINARY_DIR}/generated)
  file(GLOB migrations CONFIGURE_DEPENDS ${directory}/*.sql)
  # A file that is gone is no reason to run the command again; a list that has become another one is.
  list(JOIN migrations "\n" names)
  file(CONFIGURE OUTPUT ${generated}/${NAME}_migrations.list CONTENT "${names}\n" @ONLY)
  add_custom_command(
    OUTPUT ${generated}/${NAME}_migrations.c ${generated}/${NAME}_migrations.h
    COMMAND ${CMAKE_COMMAND} -D NAME=${NAME} -D SQL_DIR=${directory} -D OUT_DIR=${generated} -P ${script}
    DEPENDS ${migrations} ${script} ${generated}/${NAME}_migrations.list
    COMMENT "Embedding sql/${NAME}")
  target_sources(${TARGET} PRIVATE ${generated}/${NAME}_migrations.c ${generated}/${NAME}_migrations.h)
endfunction()

# semel_register(KIND NAME BUILT_IN SCHEME…): lines for cmake/backends.h.in.
function(semel_register KIND NAME BUILT_IN)
  string(TOUPPER ${KIND} KIND)
  if(BUILT_IN)
    set_property(GLOBAL APPEND_STRING PROPERTY SEMEL_${KIND}_DRIVERS " \\\n    X(${NAME})")
  endif()
  foreach(scheme IN LISTS ARGN)
    if(BUILT_IN)
      set(line "BUILT_IN(\"${scheme}\", ${NAME})")
    else()
      set(line "LEFT_OUT(\"${scheme}\")")
    endif()
    set_property(GLOBAL APPEND_STRING PROPERTY SEMEL_${KIND}_SCHEMES " \\\n    ${line}")
  endforeach()
endfunction()

# The directories; and what their calls recorded, as variables: SEMEL_WITH_NAME, SEMEL_ABOUT_store_NAME,
# SEMEL_STORES_BUILT_IN, SEMEL_TRANSPORTS_BUILT_IN, SEMEL_BACKENDS_BUILT_IN, SEMEL_BACKENDS_LEFT_OUT,
# SEMEL_STORE_SERVERS and SEMEL_TRANSPORT_SERVERS (those built in that have a server in dev/servers.d),
# SEMEL_PUBLIC_LIBRARIES, and SEMEL_DEPENDENCIES of semel_option(): semel_NAME=module=module…
foreach(kind IN ITEMS store transport)
  string(TOUPPER ${kind} KIND)
  foreach(name IN LISTS SEMEL_${KIND}S)
    add_subdirectory(src/${kind}/${name})
    string(TOUPPER ${name} option)
    get_property(SEMEL_WITH_${option} GLOBAL PROPERTY SEMEL_WITH_${option})
    get_property(SEMEL_ABOUT_${kind}_${name} GLOBAL PROPERTY SEMEL_ABOUT_${kind}_${name})
  endforeach()
  semel_register(${kind} "" OFF ${SEMEL_PLANNED_${KIND}})
  get_property(SEMEL_${KIND}S_BUILT_IN GLOBAL PROPERTY SEMEL_BUILT_IN_${kind})
  get_property(SEMEL_${KIND}_DRIVERS GLOBAL PROPERTY SEMEL_${KIND}_DRIVERS)
  get_property(SEMEL_${KIND}_SCHEMES GLOBAL PROPERTY SEMEL_${KIND}_SCHEMES)
  list(JOIN SEMEL_${KIND}S_BUILT_IN " " SEMEL_${KIND}S_LINE)
  set(SEMEL_${KIND}_SERVERS "")
  foreach(name IN LISTS SEMEL_${KIND}S_BUILT_IN)
    if(EXISTS ${PROJECT_SOURCE_DIR}/dev/servers.d/${name}.sh)
      list(APPEND SEMEL_${KIND}_SERVERS ${name})
    endif()
  endforeach()
endforeach()
set(SEMEL_BACKENDS_BUILT_IN ${SEMEL_STORES_BUILT_IN} ${SEMEL_TRANSPORTS_BUILT_IN})
list(REMOVE_DUPLICATES SEMEL_BACKENDS_BUILT_IN)
set(SEMEL_BACKENDS_LEFT_OUT ${SEMEL_STORES} ${SEMEL_TRANSPORTS})
list(REMOVE_ITEM SEMEL_BACKENDS_LEFT_OUT ${SEMEL_BACKENDS_BUILT_IN})
get_property(SEMEL_PUBLIC_LIBRARIES GLOBAL PROPERTY SEMEL_PUBLIC_LIBRARIES)
get_property(SEMEL_DEPENDENCIES GLOBAL PROPERTY SEMEL_DEPENDENCIES) # now, before that of the tests is added
list(REMOVE_DUPLICATES SEMEL_DEPENDENCIES)

foreach(name IN LISTS SEMEL_BACKENDS_BUILT_IN)
  string(TOUPPER ${name} option)
  target_compile_definitions(semel_flags INTERFACE SEMEL_WITH_${option})
endforeach()
configure_file(cmake/backends.h.in generated/backends.h @ONLY)
