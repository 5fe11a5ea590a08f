# cmake -D NAME=sqlite -D SQL_DIR=sql/sqlite -D OUT_DIR=… -P EmbedSql.cmake
# Turns SQL_DIR/0001_name.sql, 0002_… into OUT_DIR/NAME_migrations.{c,h}, so that the migrations are
# files that a person can read and diff, and the library needs none of them at run time.
cmake_minimum_required(VERSION 3.22)

file(GLOB files ${SQL_DIR}/*.sql)
list(SORT files)
set(rows "")
set(count 0)
foreach(file IN LISTS files)
  get_filename_component(base ${file} NAME)
  if(NOT base MATCHES "^([0-9][0-9][0-9][0-9])_([a-z0-9_]+)\\.sql$")
    message(FATAL_ERROR "${file}: a migration is named as in 0001_name.sql")
  endif()
  set(number ${CMAKE_MATCH_1})
  set(name ${CMAKE_MATCH_2})
  math(EXPR count "${count} + 1")
  string(REGEX REPLACE "^0+" "" version "${number}")
  if(NOT version EQUAL count)
    message(FATAL_ERROR "${file}: migrations count from 0001 without a gap; this one should be ${count}")
  endif()

  file(READ ${file} sql)
  foreach(what IN ITEMS brings locks)
    if(NOT sql MATCHES "(^|\n)-- ${what}: ([^\n\"\\?]+)\n")
      message(FATAL_ERROR "${file}: a migration has a line `-- ${what}: ...`, for `semel migrate status`")
    endif()
    set(${what} "${CMAKE_MATCH_2}")
  endforeach()

  # What a text creates can say which text it was.
  string(MD5 digest "${sql}")
  string(REPLACE "{digest}" "${digest}" sql "${sql}")

  # The least version that a program must know to use the tables behind this step. Programs that know less than 6 do not
  # ask for it, so the steps before have no such line.
  set(needs ${version})
  if(version GREATER 5)
    if(NOT sql MATCHES "(^|\n)-- needs: ([0-9]+)\n" OR CMAKE_MATCH_2 LESS 1 OR CMAKE_MATCH_2 GREATER version)
      message(FATAL_ERROR "${file}: a migration has a line `-- needs: N`, the version that programs must know; "
        "${version} if programs that know less cannot use the tables any more")
    endif()
    set(needs ${CMAKE_MATCH_2})
  endif()

  # One literal per line; \? because ISO C still reads trigraphs.
  string(REPLACE "\\" "\\\\" sql "${sql}")
  string(REPLACE "\"" "\\\"" sql "${sql}")
  string(REPLACE "?" "\\?" sql "${sql}")
  string(REPLACE "\n" "\\n\"\n     \"" sql "${sql}")
  string(APPEND rows "    {${version}, ${needs}, \"${name}\", \"${brings}\",\n     \"${locks}\",\n     \"${sql}\"},\n")
endforeach()

file(WRITE ${OUT_DIR}/${NAME}_migrations.h "/* Generated from sql/${NAME} by cmake/EmbedSql.cmake. */
#ifndef SEMEL_GENERATED_${NAME}_MIGRATIONS_H
#define SEMEL_GENERATED_${NAME}_MIGRATIONS_H

#include \"store/sql/schema.h\"

extern const sql_migration ${NAME}_migrations[];

#endif
")
file(WRITE ${OUT_DIR}/${NAME}_migrations.c "/* Generated from sql/${NAME} by cmake/EmbedSql.cmake. */
#include \"generated/${NAME}_migrations.h\"

#pragma GCC diagnostic ignored \"-Woverlength-strings\"

const sql_migration ${NAME}_migrations[] = {
${rows}    {0},
};
")
