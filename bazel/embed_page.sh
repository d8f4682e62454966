#!/bin/sh
# embed_page.sh PAGE NAME HEADER: a page for a browser as C++ on standard output. A line of PAGE that
# names a style sheet or a script beside it is replaced by that file. The text is the std::string_view
# `brim::memory::NAME` that HEADER declares.
set -eu
folder=$(dirname "$1")

printf '#include "%s"\n\nnamespace brim::memory {\n\nconst std::string_view %s = R"page(' "$3" "$2"
awk -v folder="$folder" '
  function insert(name, tag,    path, line, got) {
    path = folder "/" name
    print "<" tag ">"
    while ((got = (getline line < path)) > 0) print line
    if (got < 0) { print "embed_page: cannot read " path >"/dev/stderr"; exit 1 }
    close(path)
    print "</" tag ">"
  }
  /^<link rel="stylesheet" href="[^"]*">$/ { split($0, part, "\""); insert(part[4], "style"); next }
  /^<script src="[^"]*"><\/script>$/ { split($0, part, "\""); insert(part[2], "script"); next }
  { print }
' "$1"
printf ')page";\n\n}  // namespace brim::memory\n'
