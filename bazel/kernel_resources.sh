#!/bin/bash
# kernel_resources.sh FILES...: a table of what ptxas said (bazel/nvcc.sh) of all kernels, one a
# line: bytes that it spills, bytes of its stack, registers of a thread, architecture, name. The most
# first.
set -euo pipefail
awk '
  /Compiling entry function/ {
    split($0, quoted, "\x27")
    name = quoted[2]
    architecture = quoted[4]
  }
  /bytes stack frame/ { stack = $1; spilled = $5 + $9 }
  /Used [0-9]+ registers/ {
    for (i = 1; i < NF; ++i) if ($i == "Used") registers = $(i + 1)
    print spilled + 0, stack + 0, registers, architecture, name
  }' "$@" | sort -k1,1nr -k2,2nr -k3,3nr -k4 | c++filt |
  awk 'BEGIN { print "spilled stack registers architecture kernel" } { print }'
