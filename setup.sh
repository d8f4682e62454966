#!/usr/bin/env bash
# Installs what brim needs from Debian; safe to run twice.
#   ./setup.sh              install what is missing
#   ./setup.sh --run [...]  then build an example for this machine and train it (arguments go to
#                           it); with --full first, build it for every machine
#   ./setup.sh --test       then run every test: as they are, under the thread sanitizer, and under
#                           the address and undefined-behaviour sanitizers. Where $BRIM_TEST_SECONDS
#                           is set, these go on until so many are over, those first that a change
#                           can affect (bazel/test_tiers.sh), and it says which were left out
#   ./setup.sh --help       this text
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

# Prints the comment at the top.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' setup.sh; }

check_folder() {
  local here
  here="$(pwd -P)"
  if [[ "$here" == *[[:space:]]* ]]; then
    echo "setup.sh: Bazel builds nothing in a folder with a space in its path; move brim out of" \
      "'$here'" >&2
    return 1
  fi
}

check_compiler() {
  if ! g++ -std=c++20 -x c++ -fsyntax-only - 2>/dev/null <<<'#include <span>
      #include <source_location>
      template <class T> concept Any = true; std::span<int> s;'; then
    echo "setup.sh: brim is C++20, which this compiler is not up to: $(g++ --version |
      head -n 1)" >&2
    return 1
  fi
}

# Prints the flags of a build for this machine alone, which compiles less: one instruction set of the
# kernels, and no CUDA where there is no driver for it.
for_this_machine() {
  local flags kernels=x86-64-v4 said="for this processor alone" needed
  for needed in avx2 fma bmi1 bmi2 f16c abm movbe; do
    if ! grep -qw "$needed" /proc/cpuinfo; then
      echo "setup.sh: this processor lacks $needed, a part of x86-64-v3, which brim needs" >&2
      return 1
    fi
  done
  for needed in avx512f avx512bw avx512cd avx512dq avx512vl; do
    grep -qw "$needed" /proc/cpuinfo || kernels=baseline
  done
  flags="--define=brim_kernels=$kernels"
  if [[ ! -e /dev/nvidiactl && ! -e /proc/driver/nvidia/version && ! -e /dev/dxg ]]; then
    flags+=" --config=nocuda" said+=", without CUDA, as there is no driver"
  fi
  echo "setup.sh: builds $said (--run --full builds all): bazel build $flags //apps:train" >&2
  echo "$flags"
}

run_example() {
  local flags=""
  if [[ "${1:-}" == --full ]]; then
    shift
  else
    flags="$(for_this_machine)"
  fi
  local arguments=("$@")
  if (( $# == 0 )); then
    arguments=(--data shapes --model resnet20 --epochs 3)
  fi
  check_compiler
  bazel build $flags //apps:train
  local program="$PWD/bazel-bin/apps/train"
  cd "$caller"  # paths in the arguments are the caller's
  "$program" "${arguments[@]}"
}

passed=0 failed=0 skipped="" until=""
# "MESSAGE: skipped: late work (why)"; of ops "on CUDA (why)" alone, to be counted together.
skips='MESSAGE: skipped: (?:.*? (?=on CUDA))?\K.*'

# run_tests FLAG... [-- LABEL...]: these tests, or all, under these flags, added to passed and
# failed; those that there is no time for, where $until is a second of this run, are said to be
# skipped.
run_tests() {
  local logs said status=0 counted="0 0" within=() flags=() label what tests=(//...)
  while (( $# > 0 )) && [[ "$1" != -- ]]; do flags+=("$1"); shift; done
  if (( $# > 1 )); then tests=("${@:2}"); fi
  if [[ -n "$until" ]]; then
    within=(timeout --signal=INT --kill-after=60 "$(( until > SECONDS ? until - SECONDS : 1 ))")
  fi
  if (( ${#tests[@]} > 1 )); then what="${#tests[@]} tests"; else what="${tests[0]}"; fi
  echo "setup.sh: bazel test ${flags[*]} $what"
  logs="$(bazel info "${flags[@]}" bazel-testlogs)"
  # Logs of tests that are gone or filtered out now would be counted too. Results that are
  # still valid come back from the cache.
  rm -rf "$logs"
  "${within[@]}" bazel test --keep_going "${flags[@]}" "${tests[@]}" || status=$?
  if [[ -n "$until" ]] && (( status == 124 || status == 137 )); then
    for label in "${tests[@]}"; do
      # There from its start: test.log; once it has ended: test.xml.
      [[ -e "$logs/$(tr : / <<<"${label#//}")/test.xml" ]] || left_out "${flags[*]}" "$label"
    done
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

left_out() { skipped+="      1 test, for want of time: bazel test $1 $2"$'\n'; }  # FLAGS LABEL

# The tests of the sanitizers in the order in which they are worth running.
run_sanitized() {
  local tiers tier labels label
  tiers="$(bazel/test_tiers.sh sanitize)"
  [[ -n "$tiers" ]] || (( failed += 1 ))  # there is no test, or Bazel cannot say which there are
  for tier in change recent today rest; do
    labels=($(sed -n "s/^$tier //p" <<<"$tiers"))
    if (( ${#labels[@]} == 0 )); then continue; fi
    if [[ -z "$until" ]] || (( SECONDS < until )); then
      run_tests --config=sanitize -- "${labels[@]}"
    else
      for label in "${labels[@]}"; do left_out --config=sanitize "$label"; done
    fi
  done
}

run_all_tests() {
  local flags=()
  check_compiler
  bazel/trim_cache.sh ~/.cache/brim-bazel $(( 12 << 20 ))  # .bazelrc names it; 12 GiB
  read -r -a flags <<<"${BRIM_BAZEL_FLAGS:-}"
  run_tests "${flags[@]}"
  run_tests --config=tsan
  until="${BRIM_TEST_SECONDS:-}"
  run_sanitized
  [[ -z "$skipped" ]] || printf 'setup.sh: skipped checks:\n%s' "$skipped"
  echo "$passed passed, $failed failed"
  (( passed > 0 && failed == 0 ))
}

case "${1:-}" in
  "") install_missing ;;
  --help | -h) usage ;;
  --run)
    check_folder
    install_missing
    run_example "${@:2}"
    ;;
  --test)
    check_folder
    install_missing
    run_all_tests
    ;;
  *)
    echo "setup.sh: unknown option $1; use --run, --test, --help or none" >&2
    exit 1
    ;;
esac
