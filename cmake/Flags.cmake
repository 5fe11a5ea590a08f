# How our own sources are compiled and linked: semel_flags is for what is compiled here, never exported.

add_library(semel_flags INTERFACE)
target_compile_definitions(semel_flags INTERFACE _GNU_SOURCE $<$<BOOL:${SEMEL_WITH_OPENSSL}>:SEMEL_WITH_OPENSSL>
                                                 $<$<BOOL:${SEMEL_WITH_JSON}>:SEMEL_WITH_JSON>)
target_compile_options(semel_flags INTERFACE -fstack-protector-strong -fno-semantic-interposition)
target_link_options(semel_flags INTERFACE LINKER:-z,relro,-z,now)

# gcc and clang give a program a fixed address unless they are told at the link as well.
include(CheckPIESupported)
check_pie_supported()

if(SEMEL_DEVELOPER)
  target_compile_options(semel_flags INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
endif()

if(SEMEL_SANITIZE STREQUAL "address")
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(SEMEL_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread -fno-omit-frame-pointer)
elseif(SEMEL_SANITIZE STREQUAL "fuzz") # libFuzzer itself is linked to its targets only; clang has it
  set(sanitize -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(SEMEL_SANITIZE)
  message(FATAL_ERROR "SEMEL_SANITIZE is '${SEMEL_SANITIZE}'; it can be empty, address, thread or fuzz.")
else()
  # Fortified functions would hide calls from the sanitizers, and need optimisation to do anything.
  target_compile_options(
    semel_flags
    INTERFACE $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>)
endif()
if(SEMEL_SANITIZE) # all that is linked together must agree: the examples, too
  add_compile_options(${sanitize})
  add_link_options(${sanitize})
endif()
