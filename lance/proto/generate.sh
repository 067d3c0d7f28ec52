#!/bin/sh
# Regenerates lance/pb from every message file of this folder. Needs protoc and protoc-gen-go on PATH
# (or PROTOC_GEN_GO naming the plug-in). Run from anywhere.
set -eu
cd "$(dirname "$0")/../.."
plugin=${PROTOC_GEN_GO:-$(command -v protoc-gen-go)}
protoc -I . --plugin=protoc-gen-go="$plugin" --go_out=. --go_opt=module=lancesql lance/proto/*.proto
