#!/usr/bin/env bash
# Installs the reference implementation of Lance for the oracle tests: .venv (Python) and .oracle (Node).
# Both are optional: what cannot be installed is reported, and the tests that need it skip. With
# LANCESQL_REQUIRE_ORACLE=1 a missing part is an error. A stamp makes the second run instant.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

require="${LANCESQL_REQUIRE_ORACLE:-0}"

missing() { # what
  echo "oracle: $1; the tests that need it will be skipped" >&2
  if [ "$require" = 1 ]; then
    echo "oracle: LANCESQL_REQUIRE_ORACLE=1 makes this an error" >&2
    exit 1
  fi
}

setup_python() {
  if [ -n "${LANCESQL_PYTHON:-}" ]; then
    echo "oracle: python is $LANCESQL_PYTHON (LANCESQL_PYTHON)"
    return 0
  fi
  local stamp=.venv/.ready
  if [ -f "$stamp" ] && cmp -s "$stamp" scripts/requirements.txt; then
    return 0
  fi
  if ! command -v python3 >/dev/null 2>&1; then
    missing "python3 is not installed"
    return 0
  fi
  echo "oracle: installing pylance and lancedb into .venv"
  rm -rf .venv
  if ! python3 -m venv .venv; then
    rm -rf .venv
    missing "python3 cannot make a virtual environment (Debian: python3-venv)"
    return 0
  fi
  if ! .venv/bin/python -m pip install --quiet --disable-pip-version-check -r scripts/requirements.txt; then
    rm -rf .venv
    missing "pip could not install scripts/requirements.txt"
    return 0
  fi
  cp scripts/requirements.txt "$stamp"
}

setup_node() {
  local packages="@lancedb/lancedb@0.39.0 apache-arrow@18.1.0" stamp=.oracle/.ready
  if [ -n "${LANCESQL_NODE_MODULES:-}" ]; then
    echo "oracle: node modules are $LANCESQL_NODE_MODULES (LANCESQL_NODE_MODULES)"
    return 0
  fi
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$packages" ]; then
    return 0
  fi
  if ! command -v node >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
    missing "node and npm are not installed"
    return 0
  fi
  echo "oracle: installing $packages into .oracle"
  rm -rf .oracle
  mkdir -p .oracle
  # shellcheck disable=SC2086  # two words on purpose
  if ! npm i -E --no-package-lock --no-audit --no-fund --loglevel=error --prefix .oracle $packages; then
    rm -rf .oracle
    missing "npm could not install $packages"
    return 0
  fi
  echo "$packages" > "$stamp"
}

setup_python
setup_node
