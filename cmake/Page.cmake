# The page of the admin server: built from page/ by npm and esbuild, when the program is built, into one C file.
# SEMEL_PAGE is AUTO (with the page where npm and node are found), ON (an error where they are not) or OFF.
# Several builds can share SEMEL_PAGE_DIR, which has the packages and the result; the presets do.
set(SEMEL_PAGE AUTO CACHE STRING "The page of the admin server: AUTO, ON or OFF")
set_property(CACHE SEMEL_PAGE PROPERTY STRINGS AUTO ON OFF)
set(SEMEL_PAGE_DIR ${PROJECT_BINARY_DIR}/page CACHE PATH "Where the page is built")

set(SEMEL_WITH_PAGE OFF)
if(SEMEL_PAGE)
  find_program(SEMEL_NPM npm)
  find_program(SEMEL_NODE NAMES node nodejs)
  if(SEMEL_NPM AND SEMEL_NODE)
    set(SEMEL_WITH_PAGE ON)
  elseif(NOT SEMEL_PAGE STREQUAL AUTO)
    message(FATAL_ERROR "SEMEL_PAGE=${SEMEL_PAGE}, but npm or node is not there. Install them (Debian: nodejs, npm), "
                        "or configure with -DSEMEL_PAGE=AUTO.")
  endif()
endif()
set(tools "")
if(SEMEL_WITH_PAGE)
  set(SEMEL_ABOUT_PAGE "yes (built by npm)")
  set(tools -D NPM=${SEMEL_NPM} -D NODE=${SEMEL_NODE})
else()
  set(SEMEL_ABOUT_PAGE "no (SEMEL_PAGE=${SEMEL_PAGE}; needs npm and node, Debian: nodejs, npm)")
endif()

set(page_required OFF)
if(SEMEL_PAGE AND NOT SEMEL_PAGE STREQUAL AUTO)
  set(page_required ON)
endif()
set(page_assets ${PROJECT_BINARY_DIR}/generated/page_assets.c)
# npm that comes later is noticed: the page is made again.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/page_tools.txt CONTENT "${tools} ${page_required}\n")
file(GLOB_RECURSE page_sources CONFIGURE_DEPENDS page/src/*.js page/css/*.css)
add_custom_command(OUTPUT ${page_assets}
                   COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR}/page -D PLACE=${SEMEL_PAGE_DIR}
                           -D OUT=${page_assets} -D REQUIRED=${page_required} ${tools}
                           -P ${PROJECT_SOURCE_DIR}/cmake/BuildPage.cmake
                   DEPENDS ${page_sources} page/index.html page/icon.svg page/build.mjs page/package.json
                           page/package-lock.json cmake/BuildPage.cmake ${PROJECT_BINARY_DIR}/generated/page_tools.txt
                   COMMENT "The page" VERBATIM)
