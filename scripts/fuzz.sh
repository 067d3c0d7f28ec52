#!/usr/bin/env bash
# Runs every fuzz target of the tree for FUZZTIME (default 10s) each. A finding is written to the package's testdata/fuzz.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time="${FUZZTIME:-10s}"
tags="${TAGS:-gms_pure_go}"
found=0
while IFS=: read -r file _ line; do
  target=$(sed 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/' <<<"$line")
  package=./$(dirname "$file")
  echo "fuzz: $package $target ($time)"
  # Go's minimising can take longer than the whole budget, so it is bounded.
  go test -tags "$tags" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x "$package"
  found=$((found + 1))
done < <(git grep -nE '^func Fuzz[A-Za-z0-9_]+\(f \*testing\.F\)' -- '*_test.go')
if [ "$found" -eq 0 ]; then
  echo "fuzz: no target found" >&2
  exit 1
fi
echo "fuzz: $found targets"
