#!/bin/bash
# nvcc.sh RESOURCES AWK NVCC ARGUMENTS...: compiles, and writes to the file RESOURCES what ptxas says
# of each kernel, its registers and what it spills, and by the program AWK (ptx_table.awk) how it
# reads and writes memory. All else that is said is said.
set -u
resources="$1" table="$2"
shift 2
kept="$(mktemp -d)"
trap 'rm -rf "$kept"' EXIT
"$@" -Xptxas=-v -keep -keep-dir "$kept" 2>"$kept/said"
status=$?
said='^ptxas info|^[[:space:]]+[0-9]+ bytes stack frame'
grep -vE "$said" "$kept/said" >&2
{
  grep -E "$said" "$kept/said"
  # Kernels are alike on all architectures: the newest will do.
  newest="$(find "$kept" -name '*.ptx' | sort -V | tail -n 1)"
  [[ -z "$newest" ]] || awk -f "$table" "$newest"
} >"$resources"
exit $status
