#!/usr/bin/env bash
# What brim does on a GPU, for machines that have one and nothing else: no bazel, no source.
usage() {
  cat <<'END'
gpu.sh pack FOLDER [TARGET...]   builds here, and copies what `run` needs into FOLDER
FOLDER/gpu.sh run OUT.json       tests and measures there, and writes one JSON file
FOLDER/gpu.sh bars FILE...       what brim promises of a GPU, held against such files, anywhere

pack: TARGETs are tests; without any, all that are tagged `gpu`, and //tests/layers. $BRIM_BAZEL_FLAGS
goes to bazel (--config=all_gpus). FOLDER also gets the libraries of this machine that the
programs need, but for the C library's own: the other machine's must not be older.

run: needs python3 and NVIDIA's driver; cuDNN and cuBLASLt are found in $CUDNN_HOME, $CUDA_HOME, a
Python environment (nvidia/*/lib) or /usr/local/cuda. Its parts, each with a name, a status (passed,
failed or skipped, with a `why`) and seconds; the file is written anew after each of them. The first
word of a name is its kind. Seconds: what a part may take at most, times how many there are.

  machine              60         the GPU, the driver's and the libraries' versions
  probe STEP          240 x 7     one thing after another that a GPU has to do, each in a few seconds
                                  once the driver has the kernels; where one fails it is looked at closer, and the rest is
                                  skipped; always runs
  smoke                60         two steps of a small training; always runs
  bytes CASE          110 x 4     trainings of random pixels: bytes as predicted? as the driver counts?
  auto free           170         --batch auto at 90% of the card, and one image more
  auto recompute BUDGET  170 x 2  --batch auto with recomputation and without
  same MODEL          240 x 2     losses with a CUDA graph, other planners, recomputation, offload
  peer CASE           240 x 4     a training and the same in PyTorch, in turns, where python3 has it
  test LABEL          240 each    a packed test, and what it skipped; those of ops beside each other
  memcheck, racecheck LABEL  120 each   compute-sanitizer on the tests of ops; likewise

  --only NAME            only parts of this kind, or that have NAME in their name; may be repeated
  --after FILE           those that passed or failed in FILE are taken from there; may be repeated
  --limit SECONDS        of each part, in place of those above
  --total-limit SECONDS  of all; what has not ended then is skipped (none)
  --rounds N             of the trainings that are timed; fewer where the time is short (3)
  --steps N              of each of them (20)
  --jobs N               tests of ops at once (a quarter of the cores, at most 4)
  --python PROGRAM       that may have torch (python3)
  --help

All of it in calls of at most 10 minutes, the last of them until nothing is skipped for want of time:

  run OUT.json --only machine --only bytes
  run OUT.json --after OUT.json --only auto
  run OUT.json --after OUT.json --only same
  run OUT.json --after OUT.json --only 'peer resnet50 f16'
  run OUT.json --after OUT.json --only 'peer resnet50 f32' --only 'peer mobilenet_v2'
  run OUT.json --after OUT.json --total-limit 590 --only test --only memcheck --only racecheck

bars: `run` ends with the same table, and its file has them as `bars`: name, measured, wanted, and
met, missed or not measured, with a `why`. --json FILE writes the files as one. What is missed makes
no part fail, but wrong bytes, other losses and a batch that is not refused do.

Exit: 0, also where parts were skipped; 1 where one failed or nothing could be run.

  bench/gpu.sh pack /tmp/brim-gpu && tar cJf brim-gpu.tar.xz -C /tmp brim-gpu
  brim-gpu/gpu.sh run gpu.json --only test
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
  (( $# > 0 )) || fail "pack wants a FOLDER; see --help"
  local folder="$1" flags=() targets=("${@:2}") bin label test
  [[ ! -e "$folder" || -z "$(ls -A "$folder")" ]] || fail "$folder is not empty"
  mkdir -p "$folder"/{bin,lib,root}
  folder="$(cd "$folder" && pwd)"
  read -r -a flags <<<"${BRIM_BAZEL_FLAGS:-}"
  cd "$here/.."
  if (( ${#targets[@]} == 0 )); then
    mapfile -t targets < <(bazel query --noshow_progress \
      'attr(tags, "[\[ ]gpu[,\]]", tests(//tests/...)) + tests(//tests/layers:all)' | sort)
  fi
  (( ${#targets[@]} > 0 )) || fail "no test is tagged gpu"
  bazel build "${flags[@]}" //examples:train //bench:gpu_probe "${targets[@]}"
  bin="$(bazel info "${flags[@]}" bazel-bin)"
  cp -L "$bin/examples/train" "$bin/bench/gpu_probe" "$folder/bin/"
  for label in "${targets[@]}"; do
    test="${label#//}"
    test="${test/://}"
    # The folder that bazel would run it in; those of all tests are one.
    cp -rLn "$bin/$test.runfiles/brim/." "$folder/root/"
    echo "$label" >>"$folder/tests.txt"
  done
  # No name of a program has a space.
  # shellcheck disable=SC2046
  system_libraries $(find "$folder" -type f -perm -u+x) |
    while IFS= read -r library; do cp -L "$library" "$folder/lib/"; done
  cp "$here/gpu.sh" "$here"/gpu_{parts,bars,machine}.py "$here/peers/torch_gpu_step.py" "$folder/"
  {
    echo "commit $(git rev-parse HEAD 2>/dev/null || echo unknown)"
    echo "flags ${flags[*]}"
    echo "nvcc $("${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" --version 2>/dev/null | grep release || echo none)"
  } >"$folder/packed.txt"
  chmod -R u+w "$folder"
  echo "gpu.sh: ${#targets[@]} tests in $folder, $(du -sh "$folder" | cut -f1)"
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
  [[ -f "$here/tests.txt" ]] || fail "$here is not a packed folder; see --help"
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
  exec python3 -B "$here/gpu_parts.py" "$@"
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
