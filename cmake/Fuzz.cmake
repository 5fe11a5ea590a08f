# Each fuzz/fuzz_*.c is a fuzz target. With SEMEL_SANITIZE=fuzz it is linked to libFuzzer, for `make fuzz`; else to
# fuzz/driver.c, and is a CTest test that runs its corpus and a fixed number of inputs made of that.

if(NOT TARGET semel_internal)
  return()
endif()

# What a target has beside its own file; and how many inputs take two to four seconds in the debug build.
set(fuzz_targets cloudevent key sql url)
set(fuzz_sources_sql fuzz/sql_model.c)
foreach(name IN LISTS SEMEL_BACKENDS_BUILT_IN) # its part of a target, if it has one
  foreach(target IN ITEMS sql url)
    if(EXISTS ${PROJECT_SOURCE_DIR}/fuzz/${target}_${name}.c)
      list(APPEND fuzz_sources_${target} fuzz/${target}_${name}.c)
      string(APPEND fuzz_backends_${target} "X(${name})")
    endif()
  endforeach()
endforeach()
if(SEMEL_WITH_RABBITMQ)
  list(APPEND fuzz_targets envelope)
  set(fuzz_sources_envelope fuzz/envelope_input.c)
endif()
set(fuzz_rounds_cloudevent 150000)
set(fuzz_rounds_envelope 100000)
set(fuzz_rounds_key 200000)
set(fuzz_rounds_sql 30000)
set(fuzz_rounds_url 150000)

foreach(name IN LISTS fuzz_targets)
  add_executable(fuzz_${name} fuzz/fuzz_${name}.c ${fuzz_sources_${name}})
  set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY fuzz)
  target_compile_definitions(fuzz_${name} PRIVATE "FUZZ_BACKENDS=${fuzz_backends_${name}}")
  target_link_libraries(fuzz_${name} PRIVATE semel_internal)
  if(SEMEL_SANITIZE STREQUAL "fuzz")
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    continue()
  endif()
  target_sources(fuzz_${name} PRIVATE fuzz/driver.c fuzz/mutate.c)
  set(rounds ${fuzz_rounds_${name}})
  if(SEMEL_SANITIZE STREQUAL "thread") # there is one thread
    set(rounds 0)
  elseif(SEMEL_SANITIZE)
    math(EXPR rounds "${rounds} / 4")
  endif()
  semel_add_test(fuzz_${name} fuzz_${name} --rounds ${rounds} --dictionary
                 ${PROJECT_SOURCE_DIR}/fuzz/dictionaries/${name}.dict
                 ${PROJECT_SOURCE_DIR}/fuzz/corpus/${name})
endforeach()
