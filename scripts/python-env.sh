#!/usr/bin/env bash
# Makes a Python environment with packages, once: python-env.sh DIR PACKAGE==VERSION...
set -euo pipefail

dir="$1"
shift
stamp="$dir/.ready"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$*" ]; then exit 0; fi
command -v python3 >/dev/null 2>&1 || { echo "python3 is not installed" >&2; exit 1; }
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
python3 -m venv "$dir"
"$dir/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
printf '%s' "$*" >"$stamp"
