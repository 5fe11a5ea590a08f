# Headers, libraries, program, pkg-config files and the CMake package. All of it can be moved: every path
# is relative to where the file that names it lies.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/semel)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(NOT SEMEL_WITH_SQLITE)
  set(without_sqlite PATTERN sqlite.h EXCLUDE)
endif()
install(DIRECTORY include/semel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h
        ${without_sqlite})
install(TARGETS semel semel_test EXPORT semelTargets)
install(TARGETS semel_static EXPORT semelStaticTargets)
if(TARGET semel_program)
  install(TARGETS semel_program)
endif()

# The archive has targets of its own, because who links the shared library needs none of what it names.
install(EXPORT semelTargets NAMESPACE semel:: DESTINATION ${package_dir})
install(EXPORT semelStaticTargets NAMESPACE semel:: DESTINATION ${package_dir})
configure_package_config_file(cmake/semelConfig.cmake.in semelConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(semelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/semelConfig.cmake ${PROJECT_BINARY_DIR}/semelConfigVersion.cmake
        DESTINATION ${package_dir})

# <semel/sqlite.h> is public, so sqlite3 is required in public; the rest matters for static linking only.
# Debian's gcc drops a library that stands before the source file; ours may stand anywhere.
set(SEMEL_PC_LIB "-lsemel")
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(SEMEL_PC_LIB "-Wl,--push-state,--no-as-needed -lsemel -Wl,--pop-state")
endif()
set(SEMEL_PC_REQUIRES "")
set(SEMEL_PC_REQUIRES_PRIVATE "")
if(SEMEL_WITH_SQLITE)
  string(APPEND SEMEL_PC_REQUIRES " sqlite3")
endif()
if(SEMEL_WITH_JSON)
  string(APPEND SEMEL_PC_REQUIRES_PRIVATE " json-c")
endif()
if(SEMEL_WITH_OPENSSL)
  string(APPEND SEMEL_PC_REQUIRES_PRIVATE " libcrypto")
endif()
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(SEMEL_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH up /${pkgconfig_dir} /)
  string(REGEX REPLACE "/$" "" up ${up})
  set(SEMEL_PC_PREFIX "\${pcfiledir}/${up}")
endif()
cmake_path(APPEND SEMEL_PC_LIBDIR "\${prefix}" ${CMAKE_INSTALL_LIBDIR})
cmake_path(APPEND SEMEL_PC_INCLUDEDIR "\${prefix}" ${CMAKE_INSTALL_INCLUDEDIR})
foreach(name IN ITEMS semel semel-test)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${pkgconfig_dir})
endforeach()
