#!/usr/bin/env bash
# Generates emulator/wire/_pb/ from proto/. Needs the `dev` extra, which pins the generator.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-.}
python -m grpc_tools.protoc -I emulator/wire/_pb=proto --python_out="$out" --pyi_out="$out" \
  emulator/wire/_pb/et.proto emulator/wire/_pb/control.proto
