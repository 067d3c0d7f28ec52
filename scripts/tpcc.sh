#!/usr/bin/env bash
# TPC-C with one warehouse by go-tpc against bin/lancesql: prepare, run, check, run again, kill -9 in the middle, check.
# SECONDS_RUN (120) and THREADS (8) say how long and with how many connections it runs. What every step prints is kept in OUT
# (a temporary folder). Exit status 1 if a check fails. Needs the mysql client.
#
# Conditions 3.3.2.10 and 3.3.2.12 are checked by queries of our own that say the same: go-tpc's have a join inside a
# correlated sub-query, which takes hours here. CHECK_SKIP= (empty) runs go-tpc's all the same.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=${OUT:-$(mktemp -d)}
mkdir -p "$out" .cache
port=${PORT:-13390}
version=v1.0.7
skip=${CHECK_SKIP-3.3.2.10,3.3.2.12,}

# go-tpc has no way to leave out a condition: its module is built with one.
if [ ! -x .cache/go-tpc-$version ]; then
  module=$(go mod download -json github.com/pingcap/go-tpc@$version | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  cp -r "$module" "$out/go-tpc" && chmod -R u+w "$out/go-tpc"
  sed -i 's/^import (/import (\n\t"os"\n\t"strings"/; s/^\t\tfor conditionIdx, check := range checks {/&\n\t\t\tif strings.Contains(os.Getenv("CHECK_SKIP"), conditionIdx+",") {\n\t\t\t\tcontinue\n\t\t\t}/' \
    "$out/go-tpc/tpcc/check.go"
  (cd "$out/go-tpc" && GOFLAGS= CGO_ENABLED=0 go build -o "$OLDPWD/.cache/go-tpc-$version" ./cmd/go-tpc)
fi
tpcc() { CHECK_SKIP=$skip .cache/go-tpc-$version tpcc -H 127.0.0.1 -P "$port" -U root -D tpcc --warehouses 1 "$@"; }

# check runs the conditions into a file.
check() {
  tpcc check >"$1"
  cat >"$out/conditions.sql" <<'SQL'
SELECT COUNT(*) FROM customer c JOIN (SELECT o_d_id, o_c_id, SUM(ol_amount) sm FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id
  AND ol_o_id = o_id WHERE ol_delivery_d IS NOT NULL AND o_w_id = 1 GROUP BY o_d_id, o_c_id) t ON t.o_d_id = c.c_d_id AND t.o_c_id = c.c_id
  WHERE c.c_w_id = 1 AND c_balance + c_ytd_payment <> sm;
SELECT COUNT(*) FROM (SELECT c.c_balance b, COALESCE(t.sm, 0) sm, h.smh FROM customer c LEFT JOIN (SELECT o_d_id, o_c_id, SUM(ol_amount) sm FROM orders
  JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE ol_delivery_d IS NOT NULL AND o_w_id = 1 GROUP BY o_d_id, o_c_id) t
  ON t.o_d_id = c.c_d_id AND t.o_c_id = c.c_id LEFT JOIN (SELECT h_c_d_id, h_c_id, SUM(h_amount) smh FROM history WHERE h_c_w_id = 1
  GROUP BY h_c_d_id, h_c_id) h ON h.h_c_d_id = c.c_d_id AND h.h_c_id = c.c_id WHERE c.c_w_id = 1) x WHERE b <> sm - smh;
SQL
  local wrong
  wrong=$(mysql --no-defaults -h127.0.0.1 -P"$port" -uroot -N tpcc <"$out/conditions.sql" | tr '\n' ' ')
  if [ "$wrong" != "0 0 " ]; then
    echo "conditions 3.3.2.12 and 3.3.2.10: $wrong customers are wrong" >&2
    return 1
  fi
}

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
tpcc prepare --no-check -T 2 >"$out/prepare.txt"
check "$out/check0.txt"
tpcc run -T "${THREADS:-8}" --time "${SECONDS_RUN:-120}s" >"$out/run.txt"
tail -n 12 "$out/run.txt"
check "$out/check1.txt"
tpcc run -T "${THREADS:-8}" --time 30s >"$out/run2.txt" 2>&1 &
running=$!
sleep 15
kill -9 "$server"
start
wait "$running" || true # it ends with the errors of the broken connections
check "$out/check2.txt"
echo "every check is clean; output in $out"
