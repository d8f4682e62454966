#!/bin/sh
# embed_page.sh PAGE NAME HEADER: a page for a browser as C++ on standard output. A line of PAGE
# that names a style sheet or a script beside it is replaced by that file, in a <style> or <script>,
# and the line `<!-- put FILE here -->` by FILE, in which lines are replaced too. The text is the
# std::string_view `brim::memory::NAME` that HEADER declares.
set -eu
folder=$(dirname "$1")

printf '#include "%s"\n\nnamespace brim::memory {\n\nconst std::string_view %s = R"page(' "$3" "$2"
awk -v folder="$folder" -v page="$(basename "$1")" '
  function put(name,    path, line, got) {
    path = folder "/" name
    while ((got = (getline line < path)) > 0) put_line(line)
    if (got < 0) { print "embed_page: cannot read " path >"/dev/stderr"; exit 1 }
    close(path)
  }
  function put_in(tag, name) { print "<" tag ">"; put(name); print "</" tag ">" }
  function put_line(line,    part) {
    split(line, part, /[" ]/)
    if (line ~ /^<!-- put [^ ]* here -->$/) put(part[3])
    else if (line ~ /^<link rel="stylesheet" href="[^"]*">$/) put_in("style", part[6])
    else if (line ~ /^<script src="[^"]*"><\/script>$/) put_in("script", part[3])
    else print line
  }
  BEGIN { put(page) }
'
printf ')page";\n\n}  // namespace brim::memory\n'
