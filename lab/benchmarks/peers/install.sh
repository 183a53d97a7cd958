#!/usr/bin/env bash
# Installs the peers that `python -m lab.benchmarks.peers` compares with: iperf3, Open MPI, Gloo (by PyTorch for CPUs).
# usage: lab/benchmarks/peers/install.sh [DIR]    DIR: an environment of its own for the Python packages
# What cannot be installed is named and left out; the comparison then goes without it.
set -uo pipefail
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/charkha/peers}
missing=()
packages=(iperf3 openmpi-bin libopenmpi-dev)

installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }

if ! command -v apt-get >/dev/null; then
  echo "no apt-get here: install iperf3 and Open MPI with this system's package manager" >&2
else
  sudo=()
  if [ "$(id -u)" != 0 ]; then sudo=(sudo); fi
  for package in "${packages[@]}"; do
    installed "$package" && continue
    if [ -z "${updated:-}" ]; then "${sudo[@]}" apt-get update -q; updated=1; fi
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$package" \
      || missing+=("$package (apt)")
  done
fi

if [ ! -x "$folder/bin/python" ] && ! python3 -m venv "$folder"; then
  echo "no environment can be made in $folder: is python3-venv installed?" >&2
  exit 3
fi
pip_install() { "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"; }
for package in numpy mpi4py; do
  pip_install "$package" || missing+=("$package (pip)")
done
# The wheels named +cpu come without CUDA's libraries, which are gigabytes; PyPI does not have them, PyTorch's index has.
torch=2.13.0
pip_install "torch==$torch+cpu" 2>/dev/null \
  || pip_install --index-url https://download.pytorch.org/whl/cpu "torch==$torch" \
  || pip_install "torch==$torch" \
  || missing+=("torch==$torch (pip)")

if [ ${#missing[@]} -gt 0 ]; then
  printf 'not installed: %s\n' "${missing[@]}" >&2
fi
echo "peers are in $folder; compare with: python -m lab.benchmarks.peers --peers $folder"
