"use strict";
// What stands around the pictures: totals, legend, tables, the details of one buffer. Text from the
// trace becomes text nodes, never markup.

/** An element with attributes; children are elements and texts. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}
const byId = (id) => document.getElementById(id);
function chip(c) {
  const {colour, stripes} = layers[c];
  return element("span", {class: stripes ? `chip ${stripes}` : "chip", "aria-hidden": "true",
                          style: `--fill: var(--${colour})`});
}

function showStats() {
  const tile = (title, bytes, note) => element("div", {}, element("h3", {}, title),
    element("strong", {}, formatBytes(bytes)), element("p", {}, note));
  const exact = (bytes) => `${formatCount(bytes)} bytes`;
  const compare = (got, expected) => got === expected ? "as predicted, to the byte"
    : `${formatBytes(Math.abs(got - expected))} ${got > expected ? "above" : "below"} the ` +
      `predicted ${formatBytes(expected)}`;
  const tiles = [tile("Peak live", page.peak_live, exact(page.peak_live))];
  if (page.arena_bytes) {
    const gap = 100 * (page.arena_bytes / page.peak_live - 1);
    tiles.push(tile("Arena", page.arena_bytes, `${gap.toFixed(2)}% above the peak of live bytes`));
  }
  for (const kind of ["live", "reserved"]) {
    const predicted = page[`predicted_peak_${kind}`], got = page[`measured_peak_${kind}`];
    if (got)
      tiles.push(tile(`Measured ${kind}`, got, predicted ? compare(got, predicted) : exact(got)));
    else if (predicted && predicted !== page.peak_live)
      tiles.push(tile(`Predicted ${kind}`, predicted, exact(predicted)));
  }
  if (page.budget) {
    const need = page.measured_peak_reserved || page.predicted_peak_reserved || page.arena_bytes ||
                 page.peak_live;
    const left = page.budget - need;
    tiles.push(tile("Budget", page.budget, left < 0 ? `${formatBytes(-left)} too little`
                                                    : `${formatBytes(left)} to spare`));
  }
  if (page.measured) tiles.push(overlayTile());
  byId("stats").replaceChildren(...tiles);
}
function overlayTile() {
  const {compared, largest_difference: most, same_length: same} = page.measured;
  const verdict = !compared ? "nothing to compare" : most || !same ? formatBytes(most) : "equal";
  const note = `live bytes at ${formatCount(compared)} requests, predicted and measured` +
               (most ? ": the largest difference" : same ? "" : "; some sections differ in length");
  return element("div", {}, element("h3", {}, "Measured trace"),
                 element("strong", {}, verdict), element("p", {}, note));
}

function showLegend(t, when) {
  const items = present.toReversed().map((c) => element("li", {}, chip(c), layers[c].name,
    element("span", {class: "number"}, formatBytes(liveOf[c][t]))));
  if (measured.length)
    items.push(element("li", {}, element("span", {class: "chip dashes"}), "measured, in all"));
  const sum = element("li", {class: "when"}, `${when}: ${formatBytes(total[t])}`);
  byId("legend").replaceChildren(sum, ...items);
}

function showCategories(t, when, state) {
  const rows = present.map((c) => {
    let most = 0, buffers = 0;
    for (let u = state.begin; u < state.finish; u++) most = Math.max(most, liveOf[c][u]);
    for (let b = 0; b < state.finish; b++)
      if (categoryOf[b] === c && deathOf[b] > state.begin) buffers++;
    return element("tr", {}, element("th", {scope: "row"}, chip(c), " ", layers[c].name),
      ...[formatBytes(liveOf[c][t]), formatShare(liveOf[c][t], total[t]), formatBytes(most),
          formatCount(buffers)].map((text, i) =>
        element("td", {class: i === 3 ? "number held" : "number"}, text)));
  });
  byId("category-time").textContent = when;
  byId("categories").tBodies[0].replaceChildren(...rows);
}

/** The largest buffers at t whose text has every word of the filter in it. */
function showBuffers(t, when, state, choose) {
  const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found = liveAt(t).filter((b) => {
    const text = `${nameOf(b)} ${shapeOf(b)} ${layers[categoryOf[b]].name}`.toLowerCase();
    return words.every((word) => text.includes(word));
  }).sort((a, b) => bytesOf[b] - bytesOf[a] || a - b);
  const rows = found.slice(0, state.rows).map((b) => element("tr", {"data-buffer": b},
    element("td", {class: "number"}, formatBytes(bytesOf[b])),
    element("td", {class: "category"}, chip(categoryOf[b]),
            element("span", {}, layers[categoryOf[b]].name)),
    element("td", {}, element("button", {type: "button", onclick: () => choose(b)}, nameOf(b))),
    // A narrow column breaks behind commas, not inside numbers.
    element("td", {class: "shape"}, shapeOf(b).replaceAll(",", ",\u200b")),
    element("td", {class: "number held"}, formatCount(deathOf[b] - b))));
  byId("buffers").tBodies[0].replaceChildren(...rows);
  byId("table-title").textContent = `Largest buffers ${when}`;
  byId("more").hidden = found.length <= state.rows;
  byId("more").textContent = `Show all ${formatCount(found.length)}`;
}

/** Without new rows: the focus stays where it is. */
function markRow(b) {
  for (const row of byId("buffers").tBodies[0].rows)
    row.classList.toggle("chosen", Number(row.dataset.buffer) === b);
}

const kHint = "Choose a buffer in a picture or in the table: its op, module, shape, lifetime and " +
              "source line appear here.";
function showDetails(b, state, {close, zoom}) {
  const panel = byId("details");
  panel.classList.toggle("empty", b < 0);
  document.body.classList.toggle("details", b >= 0);
  if (b < 0) {
    panel.replaceChildren(element("p", {class: "hint"}, kHint));
    return;
  }
  const from = originOf(b);
  panel.replaceChildren(
    element("div", {class: "title"},
      element("h2", {}, opName(from) || layers[categoryOf[b]].name),
      element("button", {type: "button", onclick: close, "aria-label": "Close"}, "×")),
    element("p", {class: "module"}, from.module), facts(b, from, state), ...users(b),
    element("button", {type: "button", onclick: () => zoom(b)}, "Zoom to its life"));
  panel.scrollTop = 0;
}
function facts(b, from, state) {
  const life = deathOf[b] - b, idle = deathOf[b] - lastUseOf[b];
  const section = page.sections.find(([, begin, finish]) => begin <= b && b < finish);
  const atPeak = b <= state.peak && state.peak < deathOf[b];
  const list = element("dl");
  const fact = (name, ...value) => {
    if (value[0]) list.append(element("dt", {}, name), element("dd", {}, ...value));
  };
  fact("Category", chip(categoryOf[b]), " ", layers[categoryOf[b]].name);
  fact("Saved", fateOf(b));
  fact("Shape", shapeOf(b));
  fact("Bytes", exactBytes(bytesOf[b]));
  fact("At the peak", atPeak ? `live, ${formatShare(bytesOf[b], total[state.peak])} of it`
                             : "not live");
  fact("Offset", offsetOf[b] >= 0 && page.arena_bytes ? formatCount(offsetOf[b]) : "");
  fact("Life", lifeOf(b));
  fact("Held for", `${formatCount(life)} request${life === 1 ? "" : "s"}` +
                   (lastUseOf[b] > b && idle > 1 ? `, the last ${formatCount(idle)} unused` : ""));
  fact("Phase", from.phase);
  fact("Section", section ? section[0] + (section[3] < 0 ? "" : ` (step ${section[3]})`) : "");
  fact("Source", from.file ? element("code", {}, `${from.file}:${from.line}`) : "");
  return list;
}
function users(b) {
  const kMost = 6, all = usersOf(b);
  return Object.entries({"Written by": all.writes, "Read by": all.reads}).flatMap(
    ([title, ops]) => !ops.length ? [] : [element("h3", {}, title), element("ul", {},
      ...ops.slice(0, kMost).map((op) => element("li", {},
        [opName(op) || "a kernel", op.module].filter(Boolean).join(", "))),
      ...(ops.length > kMost ? [element("li", {}, `${formatCount(ops.length - kMost)} more`)] : []))]);
}

/** At a point of the window, where it fits. */
function showTooltip(b, x, y) {
  const tip = byId("tooltip");
  tip.hidden = b < 0;
  if (b < 0) return;
  tip.replaceChildren(element("strong", {}, nameOf(b)),
    chip(categoryOf[b]), ` ${layers[categoryOf[b]].name}, ${formatBytes(bytesOf[b])}`,
    element("div", {}, shapeOf(b)), element("div", {class: "when"}, lifeOf(b)),
    ...[fateOf(b)].filter(Boolean).map((fate) => element("div", {class: "when"}, fate)));
  const box = tip.getBoundingClientRect();
  const left = x + 16 + box.width > window.innerWidth ? x - 16 - box.width : x + 16;
  tip.style.left = `${Math.max(4, Math.min(left, window.innerWidth - box.width - 4))}px`;
  tip.style.top = `${Math.max(4, Math.min(y + 14, window.innerHeight - box.height - 4))}px`;
}
