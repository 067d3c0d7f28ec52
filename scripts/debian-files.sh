#!/usr/bin/env bash
# Takes single files out of a Debian package without installing it:
#   debian-files.sh DIR PACKAGE FILE...
# The files are then below DIR/PACKAGE. A second call takes no time. Needs apt-get and dpkg-deb.
set -euo pipefail

dir="$1" package="$2"
shift 2
to="$dir/$package"

all_there() {
  local f
  for f in "$@"; do [ -f "$to/$f" ] || return 1; done
}

if all_there "$@"; then exit 0; fi
for tool in apt-get dpkg-deb tar; do
  command -v "$tool" >/dev/null 2>&1 || { echo "$tool is not installed" >&2; exit 1; }
done
mkdir -p "$to"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
# APT::Sandbox: root's download goes to a folder that apt's own user may not write to.
download() { apt-get -qq -o APT::Sandbox::User="$(id -un)" download "$package"; }
if ! download 2>download.log; then
  as=()
  if [ "$(id -u)" -ne 0 ]; then as=(sudo -n); fi
  "${as[@]}" apt-get update -qq
  download
fi
dpkg-deb --fsys-tarfile ./*.deb | tar -x -C "$to" "${@/#/.\/}"
