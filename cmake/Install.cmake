# Headers, libraries, program, pkg-config files and the CMake package. All of it can be moved: every path
# is relative to where the file that names it lies. Only the systemd unit names the prefix, because systemd wants that.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/semel)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

foreach(name IN LISTS SEMEL_BACKENDS_LEFT_OUT) # <semel/NAME.h> of a backend that is not built in
  list(APPEND not_built_in PATTERN semel/${name}.h EXCLUDE)
endforeach()
install(DIRECTORY include/semel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h
        ${not_built_in})
install(TARGETS semel semel_test EXPORT semelTargets)
install(TARGETS semel_static EXPORT semelStaticTargets)
if(TARGET semel_program)
  install(TARGETS semel_program)
endif()
if(TARGET semel_dist)
  install(FILES ${dist_dir}/semel.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${dist_dir}/semel.yaml.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)
  set(share ${CMAKE_INSTALL_DATAROOTDIR})
  install(FILES ${dist_dir}/semel.bash DESTINATION ${share}/bash-completion/completions RENAME semel)
  install(FILES ${dist_dir}/semel.zsh DESTINATION ${share}/zsh/site-functions RENAME _semel)
  install(FILES ${dist_dir}/semel.fish DESTINATION ${share}/fish/vendor_completions.d)
  install(FILES packaging/prometheus/semel.rules.yml DESTINATION ${share}/semel/prometheus)
  install(FILES packaging/grafana/semel.json DESTINATION ${share}/semel/grafana)
  install(FILES ${dist_dir}/examples/semel.yaml DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
  install(PROGRAMS ${dist_dir}/examples/send-email.sh DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
  # When it is installed, because `cmake --install --prefix` may say another prefix than the build knew.
  install(CODE "cmake_path(SET CMAKE_INSTALL_FULL_BINDIR \"\${CMAKE_INSTALL_PREFIX}\")
cmake_path(APPEND CMAKE_INSTALL_FULL_BINDIR \"${CMAKE_INSTALL_BINDIR}\")
configure_file(\"${PROJECT_SOURCE_DIR}/dist/semel.service\" \"${PROJECT_BINARY_DIR}/semel.service\" @ONLY)")
  install(FILES ${PROJECT_BINARY_DIR}/semel.service DESTINATION lib/systemd/system)
endif()

# The archive has targets of its own, because a program that links the shared library needs none of what it names.
install(EXPORT semelTargets NAMESPACE semel:: DESTINATION ${package_dir})
install(EXPORT semelStaticTargets NAMESPACE semel:: DESTINATION ${package_dir})
configure_package_config_file(cmake/semelConfig.cmake.in semelConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(semelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/semelConfig.cmake ${PROJECT_BINARY_DIR}/semelConfigVersion.cmake
        DESTINATION ${package_dir})

# Debian's gcc drops a library that stands before the source file; ours may stand anywhere.
set(SEMEL_PC_LIB "-lsemel")
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(SEMEL_PC_LIB "-Wl,--push-state,--no-as-needed -lsemel -Wl,--pop-state")
endif()
# Only libraries whose headers ours include are required in public; the others matter for static linking.
set(SEMEL_PC_REQUIRES "")
set(SEMEL_PC_REQUIRES_PRIVATE "")
set(dependencies ${SEMEL_DEPENDENCIES})
list(REVERSE dependencies) # libcrypto stands first there, and behind the libraries that need it in a command
foreach(dependency IN LISTS dependencies)
  string(REPLACE "=" ";" modules ${dependency})
  list(POP_FRONT modules name)
  list(JOIN modules " " modules)
  if(name IN_LIST SEMEL_PUBLIC_LIBRARIES)
    string(APPEND SEMEL_PC_REQUIRES " ${modules}")
  else()
    string(APPEND SEMEL_PC_REQUIRES_PRIVATE " ${modules}")
  endif()
endforeach()
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
