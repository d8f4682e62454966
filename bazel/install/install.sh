#!/usr/bin/env bash
# bazel run //:install -- --prefix DIR: headers, libraries, pkg-config files and a CMake package.
# All is unpacked beside its place first, so that an install that fails leaves the prefix as it was.
set -euo pipefail

usage() {
  cat <<'END'
Installs brim for programs that are built without Bazel.

  bazel run //:install -- --prefix DIR

--prefix DIR   where include/ and lib/ go; relative to where you stand. An older brim there is
               replaced.
--help         this text

For example:
  bazel run //:install -- --prefix ~/brim
  export PKG_CONFIG_PATH=~/brim/lib/pkgconfig
  g++ -std=c++20 -O2 hello.cc $(pkg-config --cflags --libs brim) -Wl,-rpath,$HOME/brim/lib
END
}

fail() {
  echo "install: $*" >&2
  exit 1
}

prefix=""
while (( $# > 0 )); do
  case "$1" in
    --help | -h) usage; exit 0 ;;
    --prefix=*) prefix="${1#--prefix=}" ;;
    --prefix)
      (( $# > 1 )) || fail "--prefix: expected a folder after it"
      prefix="$2"
      shift
      ;;
    *) fail "unknown argument $1; did you mean --prefix? (--help tells more)" ;;
  esac
  shift
done
[[ -n "$prefix" ]] || fail "expected --prefix DIR (--help tells more)"
# `bazel run` starts programs elsewhere, and says where the person stands.
[[ "$prefix" == /* ]] || prefix="${BUILD_WORKING_DIRECTORY:-$PWD}/$prefix"

tree="$(dirname "${BASH_SOURCE[0]}")/brim_install.tar"
[[ -e "$tree" ]] || fail "$tree is missing; use bazel run //:install"

first_line() { head -n 1 | sed 's/^[a-z]*: //'; }
made="$(mkdir -p "$prefix" 2>&1)" || fail "cannot install into $prefix: $(first_line <<<"$made")"
prefix="$(cd "$prefix" && pwd)"
stage="$(mktemp -d "$prefix/.brim-install.XXXXXX" 2>&1)" ||
  fail "cannot install into $prefix: $(first_line <<<"$stage")"
placed=() moved=()  # new parts; those of an older brim, in $stage/old until all is in place
clean_up() {
  for part in "${placed[@]}"; do rm -rf "${prefix:?}/$part"; done
  for part in "${moved[@]}"; do mv -T "$stage/old/$part" "$prefix/$part"; done
  rm -rf "$stage"
}
trap clean_up EXIT
unpacked="$(tar --extract --file="$tree" --directory="$stage" --no-same-owner --touch 2>&1)" ||
  fail "cannot install into $prefix: $(first_line <<<"$unpacked")"

# What is brim's alone is replaced as a whole, so that no header of an older version stays.
parts=(include/brim lib/cmake/brim)
for file in "$stage"/lib/* "$stage"/lib/pkgconfig/*; do
  [[ -d "$file" && ! -L "$file" ]] || parts+=("${file#"$stage/"}")
done

# Everything that can be refused is asked for before the first file is moved.
for part in "${parts[@]}"; do
  folder="$prefix/$(dirname "$part")"
  made="$(mkdir -p "$folder" 2>&1)" || fail "cannot install into $prefix: $(first_line <<<"$made")"
  [[ -w "$folder" ]] || fail "cannot install into $prefix: $folder is not writable"
  if [[ -d "$stage/$part" && ! -L "$stage/$part" ]]; then
    [[ ! -e "$prefix/$part" || -d "$prefix/$part" ]] ||
      fail "cannot install into $prefix: $prefix/$part is not a folder"
  elif [[ -d "$prefix/$part" ]]; then
    fail "cannot install into $prefix: $prefix/$part is a folder"
  fi
done

for part in "${parts[@]}"; do
  if [[ -e "$prefix/$part" || -L "$prefix/$part" ]]; then
    mkdir -p "$stage/old/$(dirname "$part")"
    mv -T "$prefix/$part" "$stage/old/$part"
    moved+=("$part")
  fi
  placed+=("$part")
  mv -T "$stage/$part" "$prefix/$part"
done
placed=() moved=()
echo "install: brim is in $prefix; its pkg-config files are in $prefix/lib/pkgconfig"
