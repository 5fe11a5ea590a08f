# One set of position-independent objects makes libsemel.so, libsemel.a and what the tests link.

file(GLOB sources CONFIGURE_DEPENDS src/base/*.c src/core/*.c src/store/registry.c src/store/memory/*.c
     src/transport/registry.c src/transport/memory/*.c)
set(libraries Threads::Threads)

# A store with tables: its sources, and its migrations as C.
foreach(name IN ITEMS sqlite postgres mariadb)
  string(TOUPPER ${name} option)
  if(NOT SEMEL_WITH_${option})
    continue()
  endif()
  file(GLOB store_sources CONFIGURE_DEPENDS src/store/${name}/*.c)
  file(GLOB migrations CONFIGURE_DEPENDS sql/${name}/*.sql)
  set(generated ${PROJECT_BINARY_DIR}/generated/${name}_migrations)
  add_custom_command(
    OUTPUT ${generated}.c ${generated}.h
    COMMAND ${CMAKE_COMMAND} -D NAME=${name} -D SQL_DIR=${PROJECT_SOURCE_DIR}/sql/${name}
            -D OUT_DIR=${PROJECT_BINARY_DIR}/generated -P ${PROJECT_SOURCE_DIR}/cmake/EmbedSql.cmake
    DEPENDS ${migrations} cmake/EmbedSql.cmake
    COMMENT "Embedding sql/${name}")
  list(APPEND sources ${store_sources} ${generated}.c ${generated}.h)
endforeach()
if(SEMEL_WITH_RABBITMQ)
  file(GLOB rabbitmq_sources CONFIGURE_DEPENDS src/transport/rabbitmq/*.c)
  list(APPEND sources ${rabbitmq_sources})
endif()
foreach(name IN ITEMS sqlite postgres mariadb rabbitmq openssl json)
  if(TARGET PkgConfig::semel_${name})
    list(APPEND libraries PkgConfig::semel_${name})
  endif()
endforeach()

add_library(semel_objects OBJECT ${sources})
target_include_directories(semel_objects PRIVATE include src ${PROJECT_BINARY_DIR})
target_link_libraries(semel_objects PRIVATE semel_flags ${libraries})

function(semel_public_interface TARGET)
  target_include_directories(
    ${TARGET} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

# --- libsemel.so ------------------------------------------------------------------------------------
add_library(semel SHARED $<TARGET_OBJECTS:semel_objects>)
add_library(semel::semel ALIAS semel)
semel_public_interface(semel)
set_target_properties(semel PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                                       LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/semel.map)
target_link_libraries(semel PRIVATE ${libraries})
target_link_options(semel PRIVATE LINKER:-z,relro,-z,now
                    LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/semel.map)
if(NOT SEMEL_SANITIZE) # a sanitizer's runtime is in the program
  target_link_options(semel PRIVATE LINKER:-z,defs)
endif()
if(SEMEL_WITH_SQLITE) # <semel/sqlite.h> speaks of sqlite3, so its users link it
  target_link_libraries(semel PUBLIC PkgConfig::semel_sqlite)
endif()

# --- libsemel.a -------------------------------------------------------------------------------------
# Hidden symbols of an archive still meet those of the program that links it, and ours have short names
# (json_lookup). So the archive holds one object, joined from all, in which they are local.
if(CMAKE_OBJCOPY AND NOT SEMEL_SANITIZE AND NOT "${CMAKE_C_FLAGS}" MATCHES "-flto"
   AND NOT CMAKE_INTERPROCEDURAL_OPTIMIZATION)
  add_custom_command(
    OUTPUT semel.o
    COMMAND ${CMAKE_LINKER} -r -o semel.o $<TARGET_OBJECTS:semel_objects>
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden semel.o
    DEPENDS semel_objects $<TARGET_OBJECTS:semel_objects>
    COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Joining the objects of libsemel.a")
  add_library(semel_static STATIC ${CMAKE_CURRENT_BINARY_DIR}/semel.o)
else()
  add_library(semel_static STATIC $<TARGET_OBJECTS:semel_objects>)
endif()
add_library(semel::static ALIAS semel_static)
semel_public_interface(semel_static)
set_target_properties(semel_static PROPERTIES OUTPUT_NAME semel EXPORT_NAME static LINKER_LANGUAGE C)
target_link_libraries(semel_static PUBLIC ${libraries})

# --- libsemel-test.a: <semel/test.h>, for the tests of those who use semel --------------------------
file(GLOB test_sources CONFIGURE_DEPENDS src/test/*.c)
add_library(semel_test_objects OBJECT ${test_sources})
target_include_directories(semel_test_objects PRIVATE include src)
target_link_libraries(semel_test_objects PRIVATE semel_flags)
add_library(semel_test STATIC $<TARGET_OBJECTS:semel_test_objects>)
add_library(semel::test ALIAS semel_test)
semel_public_interface(semel_test)
set_target_properties(semel_test PROPERTIES OUTPUT_NAME semel-test EXPORT_NAME test LINKER_LANGUAGE C)
target_link_libraries(semel_test PUBLIC semel)
