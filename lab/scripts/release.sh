#!/usr/bin/env bash
# A release, from a clean checkout of main:
#   prepare VERSION   sets the version, and makes a section of CHANGELOG.md out of changes/. Read and shorten it, commit it
#                     as "Release VERSION", let CI check it.
#   build FOLDER      builds what is committed: wheels, pure and compiled for the Python at hand (PYTHON, default python3),
#                     source archives, a software bill of materials (CycloneDX) of each distribution, checksums. Every
#                     wheel is installed into a bare environment and plays a run over loopback; pip-audit looks for known
#                     vulnerabilities, or the step says that it could not. For compiled wheels of other Pythons:
#                     PYTHON=python3.13 lab/scripts/release.sh compile FOLDER
# Nothing is published. After `git tag vVERSION && git push origin vVERSION`, docs/ci/charkha-release.yml builds the tag
# again and publishes the files: the same commit gives the same wheels.
set -euo pipefail
cd "$(dirname "$0")/../.."
step() { printf '\n== %s\n' "$*"; }
fail() { printf 'release: %s\n' "$*" >&2; exit 1; }

prepare() {
  [[ $1 =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "$1: a version is MAJOR.MINOR.PATCH"
  ! grep -qx "## $1" CHANGELOG.md || fail "CHANGELOG.md has a section $1 already"
  sed -i "s/^VERSION = .*/VERSION = \"$1\"/" emulator/version.py
  towncrier build --yes --version "$1"
}

build() {
  local out scratch version tag
  mkdir -p "$1"
  out=$(cd "$1" && pwd)
  [ -z "$(ls -A "$out")" ] || fail "$out is not empty"
  scratch=$(mktemp -d)
  trap "rm -rf '$scratch'" EXIT
  mkdir "$scratch/source"
  git archive HEAD | tar -x -C "$scratch/source"
  version=$(sed -n 's/^VERSION = "\(.*\)"/\1/p' "$scratch/source/emulator/version.py")
  tag=$(git tag --points-at HEAD)
  [ -z "$tag" ] || [ "$tag" = "v$version" ] || fail "the tag is $tag, the version $version"
  awk -v version="$version" '/^## / { on = $2 == version } on' CHANGELOG.md >"$out/CHANGES.md"
  [ -s "$out/CHANGES.md" ] || fail "CHANGELOG.md has no section $version: prepare it first"
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
  export SOURCE_DATE_EPOCH PIP_DISABLE_PIP_VERSION_CHECK=1

  step "build $version${tag:+, tagged $tag}"
  "$python" -m venv "$scratch/tools"
  "$scratch/tools/bin/pip" install --quiet --require-hashes -r requirements/release.txt
  for folder in . packaging/agent; do
    "$scratch/tools/bin/python" -m build --no-isolation --outdir "$out" "$scratch/source/$folder" >"$scratch/log" 2>&1 \
      || { cat "$scratch/log"; fail "$folder cannot be built"; }
    tail -1 "$scratch/log"
  done
  compile "$out"

  for name in charkha charkha_agent; do
    for build in pure compiled; do
      step "$name, $build, in a bare environment"
      wheels=("$out/$name-$version"-*.whl)
      for wheel in "${wheels[@]}"; do case $build-$wheel in pure-*-none-any.whl | compiled-*linux*) break ;; esac; done
      "$python" -m venv --without-pip "$scratch/$name-$build"
      "$scratch/tools/bin/pip" --python "$scratch/$name-$build" install --quiet --no-compile "$wheel"
      du -sm "$scratch/$name-$build" | awk '{ print $1 " MB" }'
      "$scratch/$name-$build/bin/charkha" --version | grep -q "($build)" || fail "${wheel##*/} is not $build"
    done
    ln -s "$scratch/$name-compiled" "$scratch/$name"
    "$scratch/tools/bin/cyclonedx-py" environment --output-reproducible --output-file "$out/$name-$version.cdx.json" \
      "$scratch/$name/bin/python"
    sed -i "s#file://$out/##" "$out/$name-$version.cdx.json"
    "$scratch/tools/bin/pip" --python "$scratch/$name" freeze --exclude charkha --exclude charkha-agent >"$scratch/$name.txt"
  done

  step "a run of the example, and one with both"
  cd "$scratch"
  for build in pure compiled; do "charkha-$build/bin/charkha" run transformer-8r --iterations 1 --warmup 0; done
  for name in west east; do
    charkha_agent/bin/charkha agent start --controller "unix:$scratch/control" --name "$name" 2>"$name.log" &
  done
  trap "kill $(jobs -p | xargs) || true; wait; rm -rf '$scratch'" EXIT
  cat >two.yaml <<'YAML'
hosts: [{name: a, per_rank: 127.91.1.0/24}, {name: b, per_rank: 127.92.1.0/24}]
agents: {a: west, b: east}
YAML
  charkha/bin/charkha bench all_reduce -n 2 -b 4K -e 4K --iterations 1 --topology two.yaml --listen "unix:$scratch/control"

  step "known vulnerabilities of what was installed"
  sort -u charkha.txt charkha_agent.txt >all.txt
  if ! tools/bin/pip-audit --strict --progress-spinner off --no-deps --disable-pip --requirement all.txt >audit 2>&1; then
    grep -v WARNING audit | tail -40
    ! grep -q 'Found .* known vulnerabilit' audit || fail "known vulnerabilities: raise the lower bounds, and build again"
    echo "NOT AUDITED: the database of vulnerabilities did not answer for all"
  else
    tail -1 audit
  fi

  cd "$out"
  sha256sum -- * >SHA256SUMS
  step "$out"
  cat SHA256SUMS
}

# compile FOLDER: the compiled wheels of what is committed. The compiler needs the types of what the modules import.
compile() {
  local out work
  mkdir -p "$1"
  out=$(cd "$1" && pwd)
  work=$(mktemp -d)
  mkdir "$work/source"
  git archive HEAD | tar -x -C "$work/source"
  step "compile with $("$python" --version)"
  "$python" -m venv "$work/compiler"
  "$work/compiler/bin/pip" install --quiet --no-deps --require-hashes -r requirements/ci.txt
  for folder in . packaging/agent; do
    CHARKHA_BUILD=compiled "$work/compiler/bin/pip" wheel --no-build-isolation --no-deps --wheel-dir "$out" \
      "$work/source/$folder" >"$work/log" 2>&1 || { cat "$work/log"; fail "$folder cannot be compiled"; }
  done
  rm -rf "$work"
}

python=${PYTHON:-python3}
case "${1:-}-$#" in
  prepare-2 | build-2 | compile-2) "$@" ;;
  *) sed -n '2,10s/^# \?//p' "$0"; exit 2 ;;
esac
