#!/bin/sh
# check_headers.sh COMPILER [FLAG…]: every public header compiles alone, with no warning.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
failed=0
for header in $(cd "$root/include" && find semel -name '*.h' | sort); do
    # Twice, to see the guard; a declaration, because ISO C wants a file to have one.
    if ! printf '#include <%s>\n#include <%s>\nextern int none;\n' "$header" "$header" |
        "$@" -I"$root/include" -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -; then
        echo "$header does not compile alone with: $*"
        failed=1
    fi
done
exit $failed
