#!/usr/bin/env bash
# Runs every fuzz target of the tree for FUZZTIME (default 10s) each, one after the other.
#
#   FUZZTIME      time per target, as Go writes it: 10s, 5m
#   FUZZTARGETS   a regular expression over PACKAGE/TARGET; all of them unless given
#   FUZZPARALLEL  inputs tried at once (1)
#   FUZZMEMORY    address space of the test process in KiB (4 GiB); more ends it as a finding
#
# A finding is an input below the package's testdata/fuzz, which `go test` runs from then on. It is named and shown at the
# end, and the other targets run all the same. What was learned is kept in .cache/fuzz.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time="${FUZZTIME:-10s}"
tags="${TAGS:-gms_pure_go}"
only="${FUZZTARGETS:-.}"
parallel="${FUZZPARALLEL:-1}"
memory="${FUZZMEMORY:-4194304}"
root=$PWD
out=$root/.cache/fuzz
mkdir -p "$out"

# seconds TIME: whole seconds of a Go duration of one unit.
seconds() {
  case "$1" in
    *h) echo $((${1%h} * 3600)) ;;
    *m) echo $((${1%m} * 60)) ;;
    *) echo "${1%s}" ;;
  esac
}
# Go does not stop an input that never ends: what runs two minutes longer than it should is one.
limit=$(($(seconds "$time") + 120))
bounded() {
  if command -v timeout >/dev/null 2>&1; then timeout --signal=QUIT --kill-after=10 "$limit" "$@"; else "$@"; fi
}

# run PACKAGE BINARY TARGET: one target, in its package's folder as `go test` would.
run() {
  # Go's minimising can take longer than the whole budget, so it is bounded.
  (cd "$root/$1" && ulimit -v "$memory" && bounded "$2" -test.run '^$' -test.fuzz "^$3\$" -test.fuzztime "$time" \
    -test.fuzzminimizetime 10x -test.fuzzcachedir "$out/inputs/$1" -test.parallel "$parallel")
}

inputs() { (cd "$root/$1" && find testdata/fuzz -type f 2>/dev/null | sort) || true; }

count=0
failed=()
built=
while IFS=: read -r file _ line; do
  target=$(sed 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/' <<<"$line")
  package=$(dirname "$file")
  if ! grep -qE "$only" <<<"$package/$target"; then continue; fi
  count=$((count + 1))
  binary=$out/$(tr / _ <<<"$package").test
  if [ "$built" != "$package" ]; then
    go test -tags "$tags" -c -fuzz . -o "$binary" "./$package"
    built=$package
  fi
  echo "fuzz: $package $target ($time)"
  before=$(inputs "$package")
  log=$out/$target.log
  if run "$package" "$binary" "$target" >"$log" 2>&1 </dev/null; then
    grep -E '^fuzz: elapsed' "$log" | tail -1 || true
    continue
  fi
  # Go sometimes reports the end of its time as a failure. Then there is no input, and nothing else is wrong.
  if [ "$(inputs "$package")" = "$before" ] && grep -q 'context deadline exceeded' "$log" &&
    ! grep -qE 'panic|SIGQUIT|goroutine|hung or terminated|Failing input' "$log"; then
    echo "fuzz: time is over ($(grep -E '^fuzz: elapsed' "$log" | tail -1))"
    continue
  fi
  tail -n 60 "$log"
  failed+=("$package $target")
  while read -r input; do
    if [ -z "$input" ]; then continue; fi
    echo "fuzz: FAILING INPUT $package/$input"
    head -c 4000 "$root/$package/$input"
    echo "fuzz: again with: go test -tags $tags -run '$target/$(basename "$input")' ./$package"
  done < <(comm -13 <(printf '%s\n' "$before") <(inputs "$package"))
done < <(git grep -nE '^func Fuzz[A-Za-z0-9_]+\(f \*testing\.F\)' -- '*_test.go')

if [ "$count" -eq 0 ]; then
  echo "fuzz: no target found" >&2
  exit 1
fi
if [ "${#failed[@]}" -gt 0 ]; then
  printf 'fuzz: FAILED %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "fuzz: $count targets"
