"use strict";
// A table whose rows are a tree, by their depth: a click on the name of a column sorts by it, rows
// staying below what they are part of; a click on a row's mark, or on `foldAll`, hides what is below.

function treeTable(table, foldAll = null) {
  const body = table.tBodies[0];
  const root = {depth: -1, below: [], open: true};
  const rows = [...body.rows].map((line) =>
    ({line, depth: Number(line.dataset.depth), below: [], open: true}));
  const path = [root];
  for (const row of rows) {
    while (path.at(-1).depth >= row.depth) path.pop();
    path.at(-1).below.push(row);
    path.push(row);
  }

  const show = (row, shown) => {
    for (const part of row.below) {
      part.line.hidden = !shown;
      show(part, shown && part.open);
    }
  };
  const place = (row) => {
    for (const part of row.below) {
      body.append(part.line);
      place(part);
    }
  };

  const setOpen = (row, open) => {
    row.open = open;
    row.mark.textContent = open ? "\u25be" : "\u25b8";
    row.mark.setAttribute("aria-expanded", open);
  };
  const inner = rows.filter((row) => row.below.length > 0);
  for (const row of inner) {
    const name = row.line.cells[0];
    row.mark = document.createElement("button");
    row.mark.type = "button";
    row.mark.className = "fold";
    row.mark.setAttribute("aria-label", `Parts of ${name.textContent}`);
    name.prepend(row.mark);
    setOpen(row, true);
    row.mark.addEventListener("click", () => {
      setOpen(row, !row.open);
      show(root, true);
    });
  }
  if (foldAll && inner.length > 0) {
    foldAll.hidden = false;
    foldAll.addEventListener("click", () => {
      const open = inner.every((row) => !row.open);
      for (const row of inner) setOpen(row, open);
      foldAll.textContent = open ? "Close all" : "Open all";
      show(root, true);
    });
  }

  // Numbers begin with the largest, names with the first.
  const headers = [...table.tHead.rows[0].cells];
  const compare = (column) => (a, b) => {
    const [x, y] = [a, b].map((row) => row.line.cells[column].dataset.value);
    return column === 0 ? x.localeCompare(y, undefined, {numeric: true}) : Number(x) - Number(y);
  };
  const sort = (column, sign) => {
    const order = compare(column);
    for (const row of [root, ...inner]) row.below.sort((a, b) => sign * order(a, b));
    place(root);
  };
  headers.forEach((header, column) => {
    const button = header.firstElementChild;
    button.disabled = false;
    button.addEventListener("click", () => {
      const before = header.getAttribute("aria-sort");
      const down = before ? before === "ascending" : column > 0;
      for (const other of headers) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", down ? "descending" : "ascending");
      sort(column, down ? -1 : 1);
    });
  });
}
