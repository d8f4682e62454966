#!/usr/bin/env bash
# trim_cache.sh FOLDER KIB: deletes what was read longest ago from a disk cache of Bazel's, which
# never shrinks one by itself, until its files hold at most so much. Bazel makes again what it misses.
set -euo pipefail
folder="$1" most=$(( $2 << 10 ))
[[ -d "$folder" ]] || exit 0
find "$folder" -type f -printf '%A@ %s %p\n' | sort --reverse --numeric-sort |
  awk -v most="$most" '{ held += $2 } held > most { sub(/^[^ ]+ [^ ]+ /, ""); print }' |
  xargs --delimiter='\n' --no-run-if-empty rm -f
