#!/usr/bin/env bash
# Writes requirements/: the versions and hashes that checks and releases install, for every Python from 3.11 on.
# Takes the newest versions that pyproject.toml allows. Needs uv (`pip install uv`).
set -euo pipefail
cd "$(dirname "$0")/../.."
lock() {
  uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
    --custom-compile-command lab/scripts/lock.sh --output-file "requirements/$1.txt" "${@:2}"
}
lock uv --group uv
lock ci --extra dev pyproject.toml
lock release --group release
