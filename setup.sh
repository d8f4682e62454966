#!/usr/bin/env bash
# Installs what brim needs from Debian; safe to run twice.
#   ./setup.sh              install what is missing
#   ./setup.sh --run [...]  then build and train an example (arguments go to it)
#   ./setup.sh --test       then run every test, also under the sanitizers, which go on until
#                           $BRIM_TEST_SECONDS are over, if it is set, and say so
set -euo pipefail
caller="$PWD"
cd "$(dirname "${BASH_SOURCE[0]}")"

packages=(
  g++                 # C++20
  bazel-bootstrap     # the build; brings its JDK
  bazel-platforms     # repositories that Bazel would otherwise download
  bazel-rules-java
  libdnnl-dev         # convolutions and matrix products on the CPU
  libjpeg62-turbo-dev # JPEG
  libpng-dev          # PNG
  nlohmann-json3-dev
  libfmt-dev
  libcli11-dev
  doctest-dev         # tests
  pkg-config          # of programs built without Bazel
  cmake
)

is_installed() {
  [[ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

# three_times COMMAND...: until it succeeds, as networks fail now and then.
three_times() {
  local try
  for try in 1 2; do
    "$@" && return
    echo "setup.sh: try $try of 3 failed: $*" >&2
    sleep 10
  done
  "$@"
}

install_missing() {
  local missing=() as_root=() package
  for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
  if (( ${#missing[@]} == 0 )); then
    echo "setup.sh: every package is installed"
    return
  fi
  if (( $(id -u) != 0 )); then
    if ! command -v sudo >/dev/null; then
      echo "setup.sh: run as root, or install these yourself: ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  echo "setup.sh: installing ${missing[*]}"
  three_times "${as_root[@]}" apt-get update -qq
  three_times "${as_root[@]}" apt-get install -qq --yes --no-install-recommends "${missing[@]}"
}

run_example() {
  local arguments=("$@")
  if (( $# == 0 )); then
    arguments=(--data shapes --model resnet20 --epochs 3)
  fi
  bazel build //examples:train
  local program="$PWD/bazel-bin/examples/train"
  cd "$caller"  # paths in the arguments are the caller's
  "$program" "${arguments[@]}"
}

passed=0 failed=0 skipped="" until=""
# "MESSAGE: skipped: late work (why)"; of ops "on CUDA (why)" alone, to be counted together.
skips='MESSAGE: skipped: (?:.*? (?=on CUDA))?\K.*'

# run_tests FLAG...: every test under these flags, added to passed and failed; those that there is
# no time for, where $until is a second of this run, are said to be skipped.
run_tests() {
  local logs said status=0 counted="0 0" within=()
  if [[ -n "$until" ]]; then
    within=(timeout --signal=INT --kill-after=60 "$(( until > SECONDS ? until - SECONDS : 1 ))")
  fi
  echo "setup.sh: bazel test $* //..."
  logs="$(bazel info "$@" bazel-testlogs)"
  # Logs of tests that are gone or filtered out now would be counted too. Results that are
  # still valid come back from the cache.
  rm -rf "$logs"
  "${within[@]}" bazel test --keep_going "$@" //... || status=$?
  if [[ -n "$until" ]] && (( status == 124 || status == 137 )); then
    skipped+="      ? tests of bazel test $* (no time after $until s)"$'\n'
    status=0
  fi
  if (( status != 0 && status != 3 && status != 4 )); then
    (( failed += 1 ))  # something was not built; 3: a test failed, 4: the flags leave none
  fi
  if [[ -d "$logs" ]]; then
    counted="$(bazel/count_tests.sh "$logs")"
    (( passed += ${counted% *}, failed += ${counted#* } )) || true
    # What tests say that they left out: "skipped: relu on CUDA against the CPU (why)".
    said="$(grep -rhsoP --include=test.log "$skips" "$logs" | sort | uniq -c || true)"
    [[ -z "$said" ]] || skipped+="$said"$'\n'
  fi
  if (( status == 3 && ${counted#* } == 0 )); then
    (( failed += 1 ))  # a test that left no report of its own
  fi
}

run_all_tests() {
  local flags=()
  bazel/trim_cache.sh ~/.cache/brim-bazel $(( 12 << 20 ))  # .bazelrc names it; 12 GiB
  read -r -a flags <<<"${BRIM_BAZEL_FLAGS:-}"
  run_tests "${flags[@]}"
  until="${BRIM_TEST_SECONDS:-}"
  run_tests --config=tsan
  run_tests --config=sanitize
  [[ -z "$skipped" ]] || printf 'setup.sh: skipped checks:\n%s' "$skipped"
  echo "$passed passed, $failed failed"
  (( passed > 0 && failed == 0 ))
}

case "${1:-}" in
  "") install_missing ;;
  --run)
    install_missing
    run_example "${@:2}"
    ;;
  --test)
    install_missing
    run_all_tests
    ;;
  *)
    echo "setup.sh: unknown option $1; use --run, --test or none" >&2
    exit 1
    ;;
esac
