#!/usr/bin/env bash
# Unpacks the upstream part of a Debian source package: debian-source.sh DIR PACKAGE. What is in the tar file is then below
# DIR/PACKAGE. A second call takes no time. Needs apt-get with an archive of Debian among its sources; its source packages need
# not be.
set -euo pipefail

mkdir -p "$1"
dir="$(cd "$1" && pwd)" package="$2"
to="$dir/$package"
if [ -f "$to/.ready" ]; then exit 0; fi
for tool in apt-get tar; do
  command -v "$tool" >/dev/null 2>&1 || { echo "$tool is not installed" >&2; exit 1; }
done
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p lists/partial archives/partial

indexes() {
  # shellcheck disable=SC2016  # apt's own variables
  apt-get indextargets --format 'deb-src $(REPO_URI) $(CODENAME) main' 'Created-By: Packages' 'Origin: Debian' 'Component: main' | sort -u
}
indexes >sources.list
if [ ! -s sources.list ]; then
  as=()
  if [ "$(id -u)" -ne 0 ]; then as=(sudo -n); fi
  "${as[@]}" apt-get update -qq
  indexes >sources.list
fi
own=(-qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$work/lists"
  -o "Dir::Cache=$work" -o "APT::Sandbox::User=$(id -un)")
apt-get "${own[@]}" update
apt-get "${own[@]}" source --download-only --tar-only "$package"
rm -rf "$to.new" "$to"
mkdir "$to.new"
tar -x -C "$to.new" --strip-components=1 -f ./*.orig.tar.*
touch "$to.new/.ready"
mv "$to.new" "$to"
