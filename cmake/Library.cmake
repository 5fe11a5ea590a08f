# One set of position-independent objects makes libsemel.so, libsemel.a and what the tests link.

# What the backends share lies beside them, in directories without a CMakeLists.txt.
file(GLOB sources CONFIGURE_DEPENDS src/base/*.c src/core/*.c src/store/*.c src/store/sql/*.c src/store/keyed/*.c
     src/transport/*.c src/transport/common/*.c)
# HTTP and AWS, for the backends that are services.
if(SEMEL_WITH_DYNAMODB)
  file(GLOB cloud_sources CONFIGURE_DEPENDS src/cloud/*.c)
  list(APPEND sources ${cloud_sources})
endif()
# The connection to Redis, for the store and the transport.
if(SEMEL_WITH_REDIS)
  file(GLOB redis_sources CONFIGURE_DEPENDS src/redis/*.c)
  list(APPEND sources ${redis_sources})
endif()
set(libraries Threads::Threads)
foreach(name IN LISTS SEMEL_BACKENDS_BUILT_IN ITEMS openssl json)
  if(TARGET PkgConfig::semel_${name})
    list(APPEND libraries PkgConfig::semel_${name})
  endif()
endforeach()

add_library(semel_objects OBJECT ${sources})
target_include_directories(semel_objects PRIVATE include src ${PROJECT_BINARY_DIR})
target_link_libraries(semel_objects PRIVATE semel_flags ${libraries})

# Each backend has objects of its own (cmake/Backends.cmake).
set(object_targets semel_objects)
list(TRANSFORM SEMEL_STORES_BUILT_IN PREPEND semel_store_ OUTPUT_VARIABLE store_targets)
list(TRANSFORM SEMEL_TRANSPORTS_BUILT_IN PREPEND semel_transport_ OUTPUT_VARIABLE transport_targets)
list(APPEND object_targets ${store_targets} ${transport_targets})
list(TRANSFORM object_targets REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)

function(semel_public_interface TARGET)
  target_include_directories(
    ${TARGET} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

# --- libsemel.so ------------------------------------------------------------------------------------
add_library(semel SHARED ${objects})
add_library(semel::semel ALIAS semel)
semel_public_interface(semel)
# Before 1.0 the binary interface may change with each minor version (docs/STABILITY.md).
set(soversion ${PROJECT_VERSION_MAJOR})
if(soversion EQUAL 0)
  string(APPEND soversion .${PROJECT_VERSION_MINOR})
endif()
set_target_properties(semel PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${soversion}
                                       LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/semel.map)
target_link_libraries(semel PRIVATE ${libraries})
target_link_options(semel PRIVATE LINKER:-z,relro,-z,now
                    LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/semel.map)
if(NOT SEMEL_SANITIZE) # a sanitizer's runtime is in the program
  target_link_options(semel PRIVATE LINKER:-z,defs)
endif()
foreach(name IN LISTS SEMEL_PUBLIC_LIBRARIES) # <semel/sqlite.h> includes <sqlite3.h>, so its users link that
  target_link_libraries(semel PUBLIC PkgConfig::${name})
endforeach()

# --- libsemel.a -------------------------------------------------------------------------------------
# Hidden symbols of an archive still meet those of the program that links it, and ours have short names
# (json_lookup). So the archive holds one object, joined from all, in which they are local.
if(CMAKE_OBJCOPY AND NOT SEMEL_SANITIZE AND NOT "${CMAKE_C_FLAGS}" MATCHES "-flto"
   AND NOT CMAKE_INTERPROCEDURAL_OPTIMIZATION)
  add_custom_command(
    OUTPUT semel.o
    COMMAND ${CMAKE_LINKER} -r -o semel.o ${objects}
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden semel.o
    DEPENDS ${object_targets} ${objects}
    COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Joining the objects of libsemel.a")
  add_library(semel_static STATIC ${CMAKE_CURRENT_BINARY_DIR}/semel.o)
else()
  add_library(semel_static STATIC ${objects})
endif()
add_library(semel::static ALIAS semel_static)
semel_public_interface(semel_static)
set_target_properties(semel_static PROPERTIES OUTPUT_NAME semel EXPORT_NAME static LINKER_LANGUAGE C)
target_link_libraries(semel_static PUBLIC ${libraries})

# --- libsemel-test.a: <semel/test.h>, for the tests of semel's users ---------------------------------
file(GLOB test_sources CONFIGURE_DEPENDS src/test/*.c)
add_library(semel_test_objects OBJECT ${test_sources})
target_include_directories(semel_test_objects PRIVATE include src)
target_link_libraries(semel_test_objects PRIVATE semel_flags)
add_library(semel_test STATIC $<TARGET_OBJECTS:semel_test_objects>)
add_library(semel::test ALIAS semel_test)
semel_public_interface(semel_test)
set_target_properties(semel_test PROPERTIES OUTPUT_NAME semel-test EXPORT_NAME test LINKER_LANGUAGE C)
target_link_libraries(semel_test PUBLIC semel)
