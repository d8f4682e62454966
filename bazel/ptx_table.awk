# For every kernel in a PTX file a line: "ptx", the bytes of its widest load and of its widest store of
# global memory, how many of its loads are of 16 bytes, how many divisions of 64 bits are in a loop
# within a loop, its name. (The loop around all is over elements, where one element of many is looked
# up.)
function bytes_of(instruction,    count, bits) {
  count = match(instruction, /\.v[24]\./) ? substr(instruction, RSTART + 2, 1) : 1
  match(instruction, /[bufs](8|16|32|64)$/)
  bits = substr(instruction, RSTART + 1, RLENGTH - 1)
  return count * bits / 8
}
function say(    i, label, depth, inner) {
  inner = 0
  for (i = 1; i <= divisions; ++i) {
    depth = 0
    for (label in ends) if (label_at[label] < division_at[i] && division_at[i] < ends[label]) ++depth
    if (depth >= 2) ++inner
  }
  print "ptx", loaded, stored, whole, inner, name
}
/\.entry / {
  match($0, /_Z[A-Za-z0-9_$]*/)
  name = substr($0, RSTART, RLENGTH)
  loaded = stored = whole = divisions = 0
  delete label_at
  delete ends
}
name == "" { next }
/^\$L__BB[0-9_]+:/ { label_at[substr($1, 1, length($1) - 1)] = NR }
/bra(\.uni)?[ \t]/ {
  target = $NF
  sub(/;$/, "", target)
  if (target in label_at) ends[target] = NR
}
/ld\.global/ {
  match($0, /ld\.global[.a-z0-9]*/)
  width = bytes_of(substr($0, RSTART, RLENGTH))
  if (width > loaded) loaded = width
  if (width == 16) ++whole
}
/st\.global/ {
  match($0, /st\.global[.a-z0-9]*/)
  width = bytes_of(substr($0, RSTART, RLENGTH))
  if (width > stored) stored = width
}
/(div|rem)\.[su]64/ { division_at[++divisions] = NR }
/^}/ { say(); name = "" }
