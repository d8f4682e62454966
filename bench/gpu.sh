#!/usr/bin/env bash
# What brim does on a GPU, for machines that have one and nothing else: no bazel, no source.
usage() {
  cat <<'END'
gpu.sh pack FOLDER               builds here, and copies what `run` needs into FOLDER and FOLDER.tar.xz
FOLDER/gpu.sh run OUT.json       tests and measures there, and writes one JSON file
FOLDER/gpu.sh bars FILE...       what brim promises of a GPU, held against such files, anywhere

pack: three programs, of them one with the cases of all tests that use a GPU. $BRIM_BAZEL_FLAGS goes to
bazel (--config=all_gpus). FOLDER also gets the libraries of this machine that the programs need, but
for the C library's own: the other machine's must not be older.

run: needs python3 and NVIDIA's driver; cuDNN and cuBLASLt are found in $CUDNN_HOME, $CUDA_HOME, a
Python environment (nvidia/*/lib) or /usr/local/cuda. What else is missing is named, and its parts
are skipped: PyTorch, compute-sanitizer, ncu. Its parts, each with a name, a status (passed, failed
or skipped, with a `why`) and seconds; the file is written anew after each of them. The first word of
a name is its kind. Seconds: what a part may take at most. The first list ends within eight minutes,
in this order:

  machine              30   the GPU, the driver's and the libraries' versions
  probe STEP           60   seven steps, each what a GPU has to do before anything larger; where one
                            fails it is looked at closer, and the rest is skipped; always runs
  test FILE            60   the cases of a test: base, core, memory; then ops beside each other
  agree CASE           60   five steps on the GPU and on the CPU
  bytes CASE           60   trainings of random pixels: bytes as predicted? as the driver counts?
  peer CASE           100   a training and the same in PyTorch, in turns, where python3 has it
  auto free           100   --batch auto at 90% of the card, and one image more
  racecheck, memcheck  90   compute-sanitizer on batch norm and depthwise convolution
  counters             60   what ncu counts of their kernels

The second list is for a second time, and takes as long as it takes:

  test FILE            60   all other tests
  bytes, peer               other cases: float32, one graph for all steps
  auto recompute SHARE 100  --batch auto with recomputation and without
  same MODEL          150   losses with a CUDA graph, other planners, recomputation, offload
  memcheck, racecheck, initcheck, synccheck FILE  90   on every test of ops

  --list NAME            first (the default), second, or all (the default with --only)
  --only NAME            only parts of this kind, or that have NAME in their name; may be repeated
  --after FILE           those that passed or failed in FILE are taken from there; may be repeated
  --limit SECONDS        of each part, in place of those above
  --total-limit SECONDS  of all; what has not ended then is skipped (480 for the first list)
  --rounds N             of the trainings that are timed; fewer where the time is short (3)
  --steps N              of each of them (20)
  --jobs N               tests of ops at once (a quarter of the cores, at most 4)
  --python PROGRAM       that may have torch (python3)
  --help

bars: `run` ends with the same table, and its file has them as `bars`: name, measured, wanted, and
met, missed or not measured, with a `why`. --json FILE writes the files as one. What is missed makes
no part fail, but wrong bytes, other losses and a batch that is not refused do.

Exit: 0, also where parts were skipped; 1 where one failed or nothing could be run; 2 for flags that
are none.

  bench/gpu.sh pack /tmp/brim-gpu
  brim-gpu/gpu.sh run gpu.json
  brim-gpu/gpu.sh run more.json --list second --after gpu.json --total-limit 590
  bench/gpu.sh bars gpu.json more.json
END
}
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

fail() {
  echo "gpu.sh: $*" >&2
  exit 1
}

# system_libraries PROGRAM...: the shared libraries from outside the tree, without the C library's.
system_libraries() {
  { ldd "$@" 2>/dev/null || true; } |
    awk '$2 == "=>" && $3 ~ /^\// && $3 !~ /_solib/ &&
         $3 !~ /\/(libc|libm|libdl|librt|libpthread|libresolv)\.so/ {print $3}' | sort -u
}

pack() {
  (( $# == 1 )) || fail "pack wants a FOLDER; see --help"
  local folder="$1" flags=() bin label
  local labels=(//apps:train //bench:gpu_probe //tests/gpu:gpu_tests)
  while [[ "$folder" == */ ]]; do folder="${folder%/}"; done
  [[ ! -e "$folder" || -z "$(ls -A "$folder")" ]] || fail "$folder is not empty"
  [[ ! -e "$folder.tar.xz" ]] || fail "$folder.tar.xz is there already"
  mkdir -p "$folder"/{bin,lib,root}
  folder="$(cd "$folder" && pwd)"
  read -r -a flags <<<"${BRIM_BAZEL_FLAGS:-}"
  cd "$here/.."
  bazel build "${flags[@]}" "${labels[@]}"
  bin="$(bazel info "${flags[@]}" bazel-bin)"
  for label in "${labels[@]}"; do
    label="${label#//}"
    cp -L "$bin/${label/://}" "$folder/bin/"
  done
  # What the tests read, in the folder that bazel would run them in.
  cp -rL "$bin/tests/gpu/gpu_tests.runfiles/brim/." "$folder/root/"
  rm "$folder/root/tests/gpu/gpu_tests"
  system_libraries "$folder"/bin/* | while IFS= read -r library; do cp -L "$library" "$folder/lib/"; done
  cp "$here/gpu.sh" "$here"/gpu_{run,parts,bars,machine}.py "$here/peers/torch_gpu_step.py" "$folder/"
  {
    echo "commit $(git rev-parse HEAD 2>/dev/null || echo unknown)"
    echo "flags ${flags[*]}"
    echo "nvcc $("${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" --version 2>/dev/null | grep release || echo none)"
  } >"$folder/packed.txt"
  chmod -R u+w "$folder"
  # The programs are much the same; one dictionary over all of them sees it.
  tar -C "${folder%/*}" -cf - "${folder##*/}" |
    xz --lzma2=preset=9,dict=512MiB >"$folder.tar.xz"
  echo "gpu.sh: $folder, $(du -sh "$folder" | cut -f1); $folder.tar.xz, $(du -h "$folder.tar.xz" | cut -f1)"
}

# library_folders PYTHON: those that have cuDNN, cuBLASLt or what cuDNN compiles with.
library_folders() {
  local root folder name
  {
    for root in "${CUDNN_HOME:-}" "${CUDNN_PATH:-}" "${CUDA_HOME:-}" "${CUDA_PATH:-}"; do
      [[ -z "$root" ]] || printf '%s\n' "$root/lib64" "$root/lib"
    done
    "$1" -c 'import glob, sys
for folder in sys.path:
    print(*sorted(glob.glob(folder + "/nvidia/*/lib")), sep="\n")' 2>/dev/null || true
    printf '%s\n' /usr/local/cuda/lib64 /usr/local/cuda/lib
  } | while IFS= read -r folder; do
    for name in cudnn cublasLt nvrtc; do
      if compgen -G "$folder/lib$name.so.*" >/dev/null; then echo "$folder"; fi
    done
  done | awk '!seen[$0]++'
}

run() {
  [[ -f "$here/packed.txt" ]] || fail "$here is not a packed folder; see --help"
  [[ "${1:---}" != --* ]] || fail "run wants the name of the JSON file first; see --help"
  command -v python3 >/dev/null || fail "run needs python3"
  local python=python3 argument previous="" path
  for argument in "$@"; do
    [[ "$previous" != --python ]] || python="$argument"
    previous="$argument"
  done
  path="$(library_folders "$python" | paste -sd: -)"
  # Of the machine that packed, where one is missing here.
  if ldd "$here/bin/train" 2>&1 | grep -q 'not found'; then
    path="${path:+$path:}$here/lib"
  fi
  export BRIM_CALLERS_LIBRARY_PATH="${LD_LIBRARY_PATH:-}"
  export BRIM_LIBRARY_PATH="$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  exec python3 -B "$here/gpu_run.py" "$@"
}

case "${1:-}" in
  pack) pack "${@:2}" ;;
  run) run "${@:2}" ;;
  bars) exec python3 -B "$here/gpu_bars.py" "${@:2}" ;;
  --help | -h) usage ;;
  *)
    usage >&2
    exit 1
    ;;
esac
