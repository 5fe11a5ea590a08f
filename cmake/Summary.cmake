# What was decided, in one look.
foreach(line IN ITEMS
    "semel ${PROJECT_VERSION}, ${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}"
    "  SQLite store    ${SEMEL_ABOUT_SQLITE}"
    "  PostgreSQL      ${SEMEL_ABOUT_POSTGRES}"
    "  MariaDB         ${SEMEL_ABOUT_MARIADB}"
    "  RabbitMQ        ${SEMEL_ABOUT_RABBITMQ}"
    "  digest keys     ${SEMEL_ABOUT_OPENSSL}"
    "  JSON keys       ${SEMEL_ABOUT_JSON}")
  message(STATUS "${line}")
endforeach()
if(PROJECT_IS_TOP_LEVEL)
  if(NOT SEMEL_WITH_SQLITE)
    set(SEMEL_ABOUT_TESTS "no (they need SQLite, as the program does)")
  endif()
  message(STATUS "  tests           ${SEMEL_ABOUT_TESTS}")
endif()
if(SEMEL_SANITIZE)
  message(STATUS "  sanitizer       ${SEMEL_SANITIZE}")
endif()
