#!/bin/bash
# nvcc.sh RESOURCES NVCC ARGUMENTS...: compiles, and writes what ptxas says of each kernel, its
# registers and what it spills, to the file RESOURCES. All else that is said is said.
set -u
resources="$1"
shift
"$@" -Xptxas=-v 2>"$resources.all"
status=$?
grep -vE '^ptxas info|^[[:space:]]+[0-9]+ bytes stack frame' "$resources.all" >&2
grep -E '^ptxas info|^[[:space:]]+[0-9]+ bytes stack frame' "$resources.all" >"$resources"
rm -f "$resources.all"
exit $status
