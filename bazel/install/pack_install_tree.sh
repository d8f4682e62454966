#!/usr/bin/env bash
# pack_install_tree.sh MANIFEST FLAGS VERSION SONAME OUT.tar: puts each "<source>TAB<place>" of the
# manifest in its place, fills in templates (names that end in .in) and packs the tree.
set -euo pipefail
manifest="$1" flags="$2" version="$3" soname="$4" out="$5"
tree="$(mktemp -d)"
trap 'rm -rf "$tree"' EXIT

# What programs link with themselves, because brim's headers use it, and what only brim does.
public=() private=()
while IFS= read -r flag; do
  case "$flag" in
    -fopenmp | -lfmt) public+=("$flag") ;;
    *) private+=("$flag") ;;
  esac
done <"$flags"

# libfmt.so.9, libdnnl.so.2: of the libraries that are linked by name.
library="$(awk -F'\t' '$2 == "lib/libbrim.so" { print $1 }' "$manifest")"
needed="$(readelf --dynamic "$library" |
  sed -n 's/.*(NEEDED).*\[\(lib\(dnnl\|fmt\|jpeg\|png\)[^]]*\)\]/\1/p' | paste -sd ' ' -)"

while IFS=$'\t' read -r source place; do
  mkdir -p "$tree/$(dirname "$place")"
  if [[ "$source" == *.in ]]; then
    sed -e "s|@VERSION@|$version|g" -e "s|@SONAME@|$soname|g" \
      -e "s|@NEEDED@|$needed|g" \
      -e "s|@PUBLIC_FLAGS@|${public[*]}|g" -e "s|@PRIVATE_FLAGS@|${private[*]}|g" \
      "$source" >"$tree/$place"
  else
    cp -L "$source" "$tree/$place"
  fi
done <"$manifest"

mv "$tree/lib/libbrim.so" "$tree/lib/libbrim.so.$version"
ln -s "libbrim.so.$version" "$tree/lib/$soname"
ln -s "$soname" "$tree/lib/libbrim.so"
chmod 644 "$tree"/lib/*.a
chmod -R u=rwX,go=rX "$tree"
tar --create --file="$out" --directory="$tree" --sort=name --mtime=@0 --owner=0 --group=0 \
  --numeric-owner include lib
