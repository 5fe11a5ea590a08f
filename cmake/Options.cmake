# What is built in. A backend or feature is AUTO (built in when pkg-config finds its library), ON (an error when it
# does not) or OFF. Here SEMEL_<NAME> becomes the answer, SEMEL_WITH_<NAME>, and PkgConfig::semel_<name>.
# SEMEL_DEFAULT is what each of them is that is not named: -DSEMEL_DEFAULT=OFF -DSEMEL_SQLITE=ON is SQLite alone.

find_package(PkgConfig QUIET)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

set(SEMEL_DEFAULT AUTO CACHE STRING "Backends and features that have no option of their own set: AUTO, ON or OFF")
set_property(CACHE SEMEL_DEFAULT PROPERTY STRINGS AUTO ON OFF)

# MODULES and PACKAGES may be lists: all are needed; the version that is shown is that of the first.
function(semel_option NAME MODULES PACKAGES MEANING)
  set(SEMEL_${NAME} ${SEMEL_DEFAULT} CACHE STRING "${MEANING}: AUTO, ON or OFF")
  set_property(CACHE SEMEL_${NAME} PROPERTY STRINGS AUTO ON OFF)
  string(TOLOWER semel_${NAME} prefix)
  list(GET MODULES 0 first)
  list(JOIN MODULES " and " modules)
  list(JOIN PACKAGES ", " packages)
  set(found OFF)
  if(SEMEL_${NAME} AND PKG_CONFIG_FOUND) # AUTO is true, too
    pkg_check_modules(${prefix} QUIET IMPORTED_TARGET GLOBAL ${MODULES})
    set(found ${${prefix}_FOUND})
    set(version ${${prefix}_VERSION} ${${prefix}_${first}_VERSION}) # CMake sets the one or the other
  endif()
  if(SEMEL_${NAME} AND NOT found AND NOT SEMEL_${NAME} STREQUAL AUTO)
    message(FATAL_ERROR "SEMEL_${NAME}=${SEMEL_${NAME}}, but pkg-config does not find ${modules}. "
                        "Install it (Debian: ${packages}), or configure with -DSEMEL_${NAME}=AUTO.")
  endif()
  if(found)
    set(SEMEL_WITH_${NAME} ON PARENT_SCOPE)
    list(JOIN MODULES "=" modules)
    set_property(GLOBAL APPEND PROPERTY SEMEL_DEPENDENCIES ${prefix}=${modules})
    list(GET version 0 version)
    set(SEMEL_ABOUT_${NAME} "yes (${first} ${version})" PARENT_SCOPE)
  else()
    set(SEMEL_WITH_${NAME} OFF PARENT_SCOPE)
    set(SEMEL_ABOUT_${NAME} "no (SEMEL_${NAME}=${SEMEL_${NAME}}; needs ${modules}, Debian: ${packages})"
        PARENT_SCOPE)
  endif()
endfunction()

semel_option(OPENSSL libcrypto libssl-dev "Digests: digest keys, long keys, fingerprints")
semel_option(JSON json-c libjson-c-dev "JSON Pointer keys")
set(SEMEL_FEATURES_LINE "")
if(SEMEL_WITH_JSON)
  string(APPEND SEMEL_FEATURES_LINE " json")
endif()
if(SEMEL_WITH_OPENSSL)
  string(APPEND SEMEL_FEATURES_LINE " digest")
endif()

option(SEMEL_DEVELOPER "All warnings, as errors" OFF)
set(SEMEL_SANITIZE "" CACHE STRING "Empty, address (with undefined), thread or fuzz")
set_property(CACHE SEMEL_SANITIZE PROPERTY STRINGS "" address thread fuzz)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()
