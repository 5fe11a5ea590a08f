#!/bin/sh
# check_install.sh BUILD: installs BUILD into a prefix inside of it, then builds every example against that
# as users would, with pkg-config and with find_package(semel), and runs it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$1/check_install
prefix=$work/prefix
rm -rf "$work"
mkdir -p "$work/bin"
cmake --install "$1" --prefix "$prefix" >"$work/install.log"
libdir=$(dirname "$(find "$prefix" -name libsemel.so)")
export PKG_CONFIG_PATH="$libdir/pkgconfig"
export LD_LIBRARY_PATH="$libdir"

step() { echo "-- $*"; }

step the program that was installed runs
"$prefix/bin/semel" --version

step what belongs to the program is there
for file in man/man1/semel.1 man/man5/semel.yaml.5 bash-completion/completions/semel zsh/site-functions/_semel \
    fish/vendor_completions.d/semel.fish doc/semel/examples/semel.yaml doc/semel/examples/send-email.sh \
    semel/prometheus/semel.rules.yml semel/grafana/semel.json; do
    [ -s "$prefix/share/$file" ] || { echo "share/$file is not installed"; exit 1; }
done
"$prefix/bin/semel" check "$prefix/share/doc/semel/examples/semel.yaml"
unit=$prefix/lib/systemd/system/semel.service
grep -q "^ExecStart=$prefix/bin/semel run " "$unit" || { echo "$unit starts something else"; exit 1; }
if command -v systemd-analyze >/dev/null; then
    # The verifier also looks at other units of the machine; only complaints about this one count.
    systemd-analyze verify --man=no --recursive-errors=no "$unit" 2>&1 | grep -F semel.service &&
        { echo "systemd refuses $unit"; exit 1; }
fi

for example in "$here"/../../examples/*.c; do
    name=$(basename "$example" .c)
    case $name in orders | inventory) continue ;; esac # they need servers: check_services.sh runs them
    step "$name by pkg-config"
    parts=$(find "${example%.c}" -name '*.c' 2>/dev/null || true) # of an example of several files
    # shellcheck disable=SC2046,SC2086 # these are words to split
    cc "$example" $parts -o "$work/bin/$name" $(pkg-config --cflags --libs semel)
    sh "$here/run_in_scratch.sh" "$work/bin/$name"
    readelf -d "$work/bin/$name" | grep -q 'NEEDED.*libsemel\.so\.0' ||
        { echo "$name does not ask for libsemel.so.0"; exit 1; }
done

step "first, with the flags before the file, as many people write it"
# shellcheck disable=SC2046 # these are words to split
cc $(pkg-config --cflags --libs semel) "$here/../../examples/first.c" -o "$work/bin/first"

step the test kit by pkg-config
printf '#include <semel/test.h>\nint main(void) { semel_test_seam_close(NULL); return 0; }\n' >"$work/kit.c"
# shellcheck disable=SC2046
cc "$work/kit.c" -o "$work/bin/kit" $(pkg-config --cflags --libs semel-test)
"$work/bin/kit"

step the examples and the test kit by find_package, shared and static
cat >"$work/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.22)
project(consumer C)
find_package(semel 0.1 REQUIRED)
file(GLOB examples $here/../../examples/*.c)
list(FILTER examples EXCLUDE REGEX "/(orders|inventory)\\.c$")
foreach(example IN LISTS examples)
  get_filename_component(name \${example} NAME_WE)
  file(GLOB parts $here/../../examples/\${name}/*.c)
  foreach(kind IN ITEMS semel static)
    add_executable(\${name}_\${kind} \${example} \${parts})
    target_link_libraries(\${name}_\${kind} PRIVATE semel::\${kind})
  endforeach()
endforeach()
add_executable(kit kit.c)
target_link_libraries(kit PRIVATE semel::test)
EOF
cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log"
cmake --build "$work/build" >"$work/build.log"
for program in "$work"/build/*_semel "$work"/build/*_static "$work/build/kit"; do
    step "$(basename "$program")"
    sh "$here/run_in_scratch.sh" "$program"
done
