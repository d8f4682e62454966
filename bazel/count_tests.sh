#!/usr/bin/env bash
# count_tests.sh TESTLOGS: prints "<passed> <failed>" for the test logs below that folder.
# A doctest program counts as its test cases, another test (a snippet, a replay) as one.
set -euo pipefail

# The head of the file only: further down is what the test printed.
succeeded() { head -n 3 "$1" | grep -q '<testsuite .*errors="0"'; }

passed=0 failed=0
# A test without test.xml was not run to its end; bazel's exit code tells that.
while IFS= read -r -d '' xml; do
  log="${xml%.xml}.log"
  case_passed=0 case_failed=0
  if [[ "$(grep '^\[doctest\] test cases:' "$log" | tail -n 1)" =~ \|\ *([0-9]+)\ passed\ \|\ *([0-9]+)\ failed ]]; then
    case_passed="${BASH_REMATCH[1]}" case_failed="${BASH_REMATCH[2]}"
  elif succeeded "$xml"; then
    case_passed=1
  fi
  # The program failed though no case says so: a crash, a leak, a time-out.
  if (( case_failed == 0 )) && ! succeeded "$xml"; then
    case_failed=1
  fi
  (( passed += case_passed, failed += case_failed )) || true
done < <(find -L "$1" -name test.xml -print0)
echo "$passed $failed"
