#!/usr/bin/env bash
# Fuzzes one parser until a fault is found or Ctrl-C is pressed:
#   bazel/fuzz.sh safetensors_fuzz FOLDER [flags of libFuzzer]
# FOLDER holds inputs to begin with, if any, and gets those that reach new code. Takes the newest
# clang from 16 on (14 has no std::source_location), with its sanitizers and its OpenMP.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (( $# < 2 )); then
  echo "usage: bazel/fuzz.sh NAME FOLDER [flags]; NAME is one of:" $(basename -s .cc tests/fuzz/*_fuzz.cc) >&2
  exit 1
fi
folder="$(realpath "$2")"
clang=""
for version in {30..16}; do
  if command -v "clang-$version" >/dev/null; then
    clang="clang-$version"
    break
  fi
done
if [[ -z "$clang" ]]; then
  echo "bazel/fuzz.sh: no clang from 16 on: apt-get install clang-N libclang-rt-N-dev libomp-N-dev," \
    "N 16 on Debian 12 and 19 on Debian 13" >&2
  exit 1
fi
exec bazel run --config=fuzz --repo_env=CC="$clang" "//tests/fuzz:$1" -- "$folder" "${@:3}"
