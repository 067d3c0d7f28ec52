#!/usr/bin/env bash
# Fails if lance/pb differs from what lance/proto generates. The plug-in is built from the module that go.mod pins; the
# comment lines that name tool versions are not compared.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v protoc >/dev/null 2>&1 || { echo "proto-check: protoc is not installed (Debian: protobuf-compiler)" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go
protoc -I . --plugin=protoc-gen-go="$work/protoc-gen-go" --go_out="$work" --go_opt=module=lancesql lance/proto/*.proto

mkdir -p "$work/want" "$work/have"
for f in "$work"/lance/pb/*.pb.go; do grep -v -E '^// [[:space:]]*(-[[:space:]]+)?protoc' "$f" > "$work/want/$(basename "$f")"; done
for f in lance/pb/*.pb.go; do grep -v -E '^// [[:space:]]*(-[[:space:]]+)?protoc' "$f" > "$work/have/$(basename "$f")"; done
if ! diff -r -u "$work/want" "$work/have"; then
  echo "proto-check: lance/pb is not what lance/proto generates (make proto)" >&2
  exit 1
fi
echo "proto-check: lance/pb is what lance/proto generates"
