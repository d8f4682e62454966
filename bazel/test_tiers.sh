#!/usr/bin/env bash
# test_tiers.sh CONFIG: the tests of `bazel test --config=CONFIG //...`, for a configuration
# that leaves some out by their tags, a line "TIER LABEL" for each, in the order in which they are
# worth running where there is no time for all:
#   change  those that the change at hand can affect: what is not in the upstream branch or, where
#           all of it is, the last commit; and what is not committed
#   recent  those that the last 20 commits can
#   today   a fifth of the others, by the date
#   rest    the others
# A change to what says how everything is built, in bazel/ and the root, affects all.
# Without git or its history everything is of the change.
set -euo pipefail

query() { bazel query --keep_going "$1" 2>/dev/null || true; }

# The tests that .bazelrc leaves to this configuration: tags with a minus are not its.
filters="$(sed -n "s/^test:$1 --test_tag_filters=//p" .bazelrc | tr ',' '\n')"
without="$(sed -n 's/^-//p' <<<"$filters" | paste -sd '|' -)"
all_tests="tests(//...) except attr(tags, '\\bmanual\\b', tests(//...))"
[[ -z "$without" ]] || all_tests+=" except attr(tags, '\\b($without)\\b', tests(//...))"

label_of() {  # FILE: what of its package it is; of a BUILD file, or one that is gone, all of it
  local folder="$1" inside
  [[ "$folder" == */* ]] || echo "//:$folder"
  while [[ "$folder" == */* ]]; do
    folder="${folder%/*}"
    if [[ -e "$folder/BUILD" ]]; then
      inside="${1#"$folder"/}"
      if [[ "$inside" == BUILD || ! -e "$1" ]]; then inside=all; fi
      echo "//$folder:$inside"
      return
    fi
  done
}

affected_since() {  # COMMIT
  local file files labels=()
  files="$(git diff --name-only --no-renames "$1" && git ls-files --others --exclude-standard)"
  # What says how everything is built.
  if grep -qE '^(bazel/|BUILD$|WORKSPACE$|\.bazelrc$|setup\.sh$|brim\.h$)' <<<"$files"; then
    query "$all_tests"
    return
  fi
  while IFS= read -r file; do
    [[ -z "$file" ]] || labels+=($(label_of "$file"))
  done <<<"$files"
  if (( ${#labels[@]} > 0 )); then
    query "($all_tests) intersect rdeps(//..., set(${labels[*]}))"
  fi
}

exists() { git rev-parse --verify --quiet "$1^{commit}" >/dev/null 2>&1; }
base="$(git merge-base HEAD '@{upstream}' 2>/dev/null || true)"
if [[ -z "$base" || "$base" == "$(git rev-parse HEAD)" ]]; then base=HEAD~1; fi

of_tier() { sed "s/^/$1 /"; }  # of the labels that come in
of_today() {
  local label
  while IFS= read -r label; do
    if (( $(cksum <<<"$label" | cut -d ' ' -f 1) % 5 == $(date +%s) / 86400 % 5 )); then
      echo "$label"
    fi
  done
}

{
  if exists "$base"; then
    affected_since "$base" | of_tier change
    if exists HEAD~20; then affected_since HEAD~20 | of_tier recent; fi
    query "$all_tests" | of_today | of_tier today
    query "$all_tests" | of_tier rest
  else
    query "$all_tests" | of_tier change
  fi
} | awk '!seen[$2]++'
