#!/usr/bin/env bash
# Makes DIR/env, a Python environment with what Django's tests need, and DIR/django, Django's sources with their tests, once:
# django-setup.sh DIR. Versions and checksums are those of django-requirements.txt and django-source.txt.
set -euo pipefail

scripts="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
dir="$1"
packages="$scripts/django-requirements.txt" source="$scripts/django-source.txt"
if cat "$packages" "$source" | cmp -s - "$dir/.ready"; then exit 0; fi
command -v python3 >/dev/null 2>&1 || { echo "python3 is not installed" >&2; exit 1; }
rm -rf "$dir"
mkdir -p "$dir/sdist" "$dir/django"
python3 -m venv "$dir/env"
pip=("$dir/env/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install --require-hashes --only-binary :all: -r "$packages"
"${pip[@]}" download --require-hashes --no-deps --no-binary :all: -d "$dir/sdist" -r "$source"
tar -x -z -C "$dir/django" --strip-components=1 -f "$dir"/sdist/*.tar.gz
rm -r "$dir/sdist"
cat "$packages" "$source" >"$dir/.ready"
