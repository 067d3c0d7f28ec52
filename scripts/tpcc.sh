#!/usr/bin/env bash
# TPC-C with one warehouse by go-tpc against bin/lancesql: prepare, run, check, run again, kill -9 in the middle, check.
# SECONDS_RUN (120) and THREADS (8) say how long and with how many connections it runs. What every step prints is kept in OUT
# (a temporary folder). Exit status 1 if a check fails. All twelve conditions are checked after prepare, all but 3.3.2.11, which
# says how many orders there are in the beginning, after a run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=${OUT:-$(mktemp -d)}
mkdir -p "$out" .cache
port=${PORT:-13390}
version=v1.0.7

if [ ! -x .cache/go-tpc-$version ]; then
  module=$(go mod download -json github.com/pingcap/go-tpc@$version | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  (cd "$module" && GOFLAGS=-mod=mod CGO_ENABLED=0 go build -o "$OLDPWD/.cache/go-tpc-$version" ./cmd/go-tpc)
fi
tpcc() { .cache/go-tpc-$version tpcc -H 127.0.0.1 -P "$port" -U root -D tpcc --warehouses 1 "$@"; }

start() {
  bin/lancesql serve --data-dir "$out/data" --addr "127.0.0.1:$port" >>"$out/server.log" 2>&1 &
  server=$!
  for _ in $(seq 600); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return 0; fi
    sleep 0.2
  done
  echo "the server does not answer; see $out/server.log" >&2
  return 1
}
trap 'kill "$server" 2>/dev/null || true' EXIT

start
tpcc prepare -T 2 >"$out/prepare.txt" # with its checks
tpcc run -T "${THREADS:-8}" --time "${SECONDS_RUN:-120}s" >"$out/run.txt"
tail -n 12 "$out/run.txt"
tpcc check >"$out/check1.txt"
tpcc run -T "${THREADS:-8}" --time 30s >"$out/run2.txt" 2>&1 &
running=$!
sleep 15
kill -9 "$server"
wait "$server" 2>/dev/null || true # the data directory is locked until the process is gone
start
wait "$running" || true # it ends with the errors of the broken connections
tpcc check >"$out/check2.txt"
echo "every check is clean; output in $out"
