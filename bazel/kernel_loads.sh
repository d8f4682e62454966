#!/bin/bash
# kernel_loads.sh FILES...: a table of what bazel/nvcc.sh found in the PTX of all kernels, one a line:
# bytes of the widest load and of the widest store, loads of 16 bytes, divisions of 64 bits in inner
# loops, name.
set -euo pipefail
echo "loaded stored whole divisions kernel"
awk '$1 == "ptx" { print $2, $3, $4, $5, $6 }' "$@" | sort -k5 | c++filt
