# For every kernel in a PTX file a line: "ptx", the bytes of its widest load and of its widest store of
# global memory (or of any, where the compiler does not see which it is), how many of its loads are of
# 16 bytes, how many divisions of 64 bits are in a loop within a loop, its name. (The loop around all is
# over elements, where one element of many is looked up.)
#
# Loops are those of the graph of blocks, whatever the order that the compiler laid them in: a division
# is in an inner one where it can be come to again without going through the blocks by which the loop
# around it is entered.
function bytes_of(instruction,    count, bits) {
  count = match(instruction, /\.v[248]\./) ? substr(instruction, RSTART + 2, 1) : 1
  match(instruction, /[bufs](8|16|32|64)$/)
  bits = substr(instruction, RSTART + 1, RLENGTH - 1)
  return count * bits / 8
}
function new_block(falls_through) {
  ++blocks
  successors[blocks] = ""
  if (falls_through) successors[blocks - 1] = successors[blocks - 1] " " blocks
}
# The blocks that can be come to from `block`, not through those in `shut`; by edges of `next_of`.
function walk(block, next_of, shut, seen,    stack, top, edges, count, i) {
  delete seen
  stack[top = 1] = block
  while (top > 0) {
    count = split(next_of[stack[top--]], edges, " ")
    for (i = 1; i <= count; ++i)
      if (!(edges[i] in seen) && !(edges[i] in shut)) {
        seen[edges[i]]
        stack[++top] = edges[i]
      }
  }
}
function is_in_inner_loop(block,    none, ahead, behind, heads, edges, count, other, i) {
  walk(block, successors, none, ahead)
  if (!(block in ahead)) return 0
  walk(block, predecessors, none, behind)
  for (other in ahead) {
    if (!(other in behind)) continue
    count = split(predecessors[other], edges, " ")
    for (i = 1; i <= count; ++i) if (!(edges[i] in ahead && edges[i] in behind)) heads[other]
  }
  walk(block, successors, heads, ahead)
  return block in ahead
}
function say(    block, edges, count, i, inner) {
  for (block = 1; block <= blocks; ++block) {
    count = split(successors[block], edges, " ")
    successors[block] = ""
    for (i = 1; i <= count; ++i) {
      if (edges[i] in block_of) edges[i] = block_of[edges[i]]
      successors[block] = successors[block] " " edges[i]
      predecessors[edges[i]] = predecessors[edges[i]] " " block
    }
  }
  for (i = 1; i <= divisions; ++i) inner += is_in_inner_loop(division_in[i])
  print "ptx", loaded, stored, whole, inner + 0, name
}
/\.entry / {
  match($0, /_Z[A-Za-z0-9_$]*/)
  name = substr($0, RSTART, RLENGTH)
  loaded = stored = whole = divisions = blocks = 0
  delete block_of
  delete successors
  delete predecessors
  delete targets
  new_block(0)
}
name == "" { next }
/^\$L[A-Za-z0-9_]*:/ {
  new_block(!ended)
  block_of[substr($1, 1, length($1) - 1)] = blocks
  ended = 0
}
# The labels of a jump by a table, on one line or several.
/\.branchtargets/ {
  listed = $1
  sub(/:$/, "", listed)
  targets[listed] = ""
  sub(/.*\.branchtargets/, "")
}
listed != "" {
  list = $0
  gsub(/[,;]/, " ", list)
  targets[listed] = targets[listed] " " list
  if (/;/) listed = ""
  next
}
/[ \t](bra|brx\.idx)(\.uni)?[ \t]/ {
  target = $NF
  sub(/;$/, "", target)
  successors[blocks] = successors[blocks] " " (target in targets ? targets[target] : target)
  ended = $0 !~ /@/
  if (!ended) new_block(1)
}
/^[ \t]*(ret|exit|trap);/ { ended = 1 }
/[ \t]ld\.(global|v[248]|[bufs][0-9])/ {
  match($0, /ld\.[.a-z0-9]*/)
  width = bytes_of(substr($0, RSTART, RLENGTH))
  if (width > loaded) loaded = width
  if (width == 16) ++whole
}
/[ \t]st\.(global|v[248]|[bufs][0-9])/ {
  match($0, /st\.[.a-z0-9]*/)
  width = bytes_of(substr($0, RSTART, RLENGTH))
  if (width > stored) stored = width
}
/(div|rem)\.[su]64/ { division_in[++divisions] = blocks }
/^}/ { say(); name = "" }
