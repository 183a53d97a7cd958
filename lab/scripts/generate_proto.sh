#!/usr/bin/env bash
# Generates emulator/_pb/ from proto/. Needs the `dev` extra, which pins the generator.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-.}
python -m grpc_tools.protoc -I emulator/_pb=proto --python_out="$out" --pyi_out="$out" \
  emulator/_pb/et.proto emulator/_pb/control.proto
