"use strict";
// The trace, unpacked from what page_data.cc wrote: a column for each property of the buffers.

const page = JSON.parse(document.getElementById("data").textContent);
const bytesOf = Float64Array.from(page.buffers.bytes);
const deathOf = Int32Array.from(page.buffers.death, (life, b) => b + life);
const lastUseOf = Int32Array.from(page.buffers.last_use, (after, b) => b + after);
const offsetOf = Float64Array.from(page.buffers.offset);
const firstLifeOf = Int32Array.from(page.buffers.first_life, (back, b) => back ? b - back : -1);
const end = bytesOf.length;

/** {op, module, file, line, phase} of an entry of the table of origins. */
function origin(index) {
  const [op, module, file, line, phase] = page.origins[index];
  return {op: page.strings[op], module: page.strings[module], file: page.strings[file], line,
          phase: page.phases[phase]};
}
const originOf = (b) => origin(page.buffers.origin[b]);
const shapeOf = (b) => page.strings[page.buffers.shape[b]];

// Categories, and activations that were not kept: what a value was before it was dropped or moved
// to the host, and what it was when backward had it made again or fetched. They are drawn as
// activations are, in stripes: thin before and thick after, and those of the host cross.
const kDropped = page.categories.length;
const kRebuilt = kDropped + 1, kMoved = kDropped + 2, kFetched = kDropped + 3;
const layers = [...page.categories.map((name) => ({name, colour: name})),
                {name: "activations, dropped", colour: "activations", stripes: "thin"},
                {name: "activations, rebuilt", colour: "activations", stripes: "thick"},
                {name: "activations, moved", colour: "activations", stripes: "thin crossed"},
                {name: "activations, fetched", colour: "activations", stripes: "thick crossed"}];
const kActivations = page.categories.indexOf("activations");
/** "fetch relu", and "fetch" of what no op asked for. */
const isFetch = (op) => op === page.fetch || op.startsWith(`${page.fetch} `);
/** kRebuilt and kFetched for what a value was in backward, -1 for others. */
function laterLayer(b) {
  const {op, phase} = originOf(b);
  if (page.buffers.category[b] !== kActivations) return -1;
  return phase === "recompute" ? kRebuilt : isFetch(op) ? kFetched : -1;
}
const laterLives = new Map();  // of a value that was not kept, by the buffer that it had in forward
firstLifeOf.forEach((first, b) => {
  if (first >= 0) laterLives.set(first, [...laterLives.get(first) ?? [], b]);
});
const categoryOf = Uint8Array.from(page.buffers.category, (category, b) => {
  if (laterLayer(b) >= 0) return laterLayer(b);
  if (!laterLives.has(b)) return category;
  return laterLayer(laterLives.get(b)[0]) === kFetched ? kMoved : kDropped;
});

// What stays lies at the bottom of the stack.
const stackOrder = [...["parameters", "optimizer", "other", "input", "communication", "gradients",
                        "activations"].map((name) => page.categories.indexOf(name)),
                    kDropped, kRebuilt, kMoved, kFetched, page.categories.indexOf("scratch")];
const present = stackOrder.filter((c) => categoryOf.includes(c));

/** Live bytes of each category at each time, and their sum. */
const liveOf = layers.map(() => new Float64Array(end + 1));
for (let b = 0; b < end; b++) {
  liveOf[categoryOf[b]][b] += bytesOf[b];
  liveOf[categoryOf[b]][deathOf[b]] -= bytesOf[b];
}
const total = new Float64Array(end + 1);
for (const live of liveOf) {
  for (let t = 1; t <= end; t++) live[t] += live[t - 1];
  for (let t = 0; t <= end; t++) total[t] += live[t];
}

const measured = (page.measured?.runs ?? []).map(([begin, steps]) => {
  let sum = 0;
  return {begin, live: steps.map((step) => sum += step)};
});

/** The first time of the most live bytes in [begin, finish). */
function peakIn(begin, finish) {
  let best = begin;
  for (let t = begin; t < finish; t++) if (total[t] > total[best]) best = t;
  return best;
}

/** Buffers that are live at t, from the bottom of the stack up. */
function liveAt(t) {
  const found = stackOrder.map(() => []);
  for (let b = 0; b <= t && b < end; b++) if (deathOf[b] > t) found[categoryOf[b]].push(b);
  return stackOrder.flatMap((c) => found[c]);
}

/** The buffer at a height of the stack, or -1. */
function bufferAt(t, height) {
  let top = 0;
  for (const b of height < 0 ? [] : liveAt(t)) if ((top += bytesOf[b]) > height) return b;
  return -1;
}

/** Where a buffer lies in the stack during its life: its lower edge at birth, birth + 1, ... Those
    that were asked for before it lie below it, and only go away. */
function lowerEdges(b) {
  const rank = stackOrder.indexOf(categoryOf[b]);
  const gone = new Float64Array(deathOf[b] - b + 1);
  let inside = 0;
  for (let other = 0; other < b; other++) {
    if (categoryOf[other] !== categoryOf[b] || deathOf[other] <= b) continue;
    inside += bytesOf[other];
    if (deathOf[other] < deathOf[b]) gone[deathOf[other] - b] += bytesOf[other];
  }
  return Array.from({length: deathOf[b] - b}, (_, i) => {
    inside -= gone[i];
    let below = inside;
    for (let r = 0; r < rank; r++) below += liveOf[stackOrder[r]][b + i];
    return below;
  });
}

/** Ops that wrote and read a buffer. */
function usersOf(b) {
  const users = {writes: [], reads: []};
  page.ops.origin.forEach((at, i) => {
    for (const use of ["writes", "reads"])
      if (page.ops[use][i].includes(b)) users[use].push({...origin(at), begin: page.ops.begin[i]});
  });
  return users;
}

/** Maximal spans of [0, end) in which key(b) is the same: [{begin, end, text}]. */
function spansOf(key) {
  const spans = [];
  for (let b = 0; b < end; b++) {
    const text = key(b);
    if (spans.length && spans.at(-1).text === text) spans.at(-1).end = b + 1;
    else spans.push({begin: b, end: b + 1, text});
  }
  return spans;
}

/** Modules by the first names of their paths: as many as tell parts of the model apart. */
function moduleSpans() {
  for (let depth = 1; ; depth++) {
    const names = page.origins.map((_, i) => origin(i).module.split(".").slice(0, depth).join("."));
    if (depth === 3 || new Set(names).size > 4)
      return spansOf((b) => names[page.buffers.origin[b]]);
  }
}
const ribbons = [
  page.sections.map(([text, begin, end]) => ({text, begin, end})),
  spansOf((b) => originOf(b).phase),
  moduleSpans(),
].filter((spans) => spans.some((span) => span.text && span.text !== "other"));

/** As format_bytes() of base/bytes.h: binary units, at most one decimal, ties to even. */
function formatBytes(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = Math.abs(bytes), unit = 0;
  while (value >= 1023.95 && unit < 4) value /= 1024, unit++;
  let tenths = Math.floor(value * 10);
  const rest = value * 10 - tenths;
  if (rest > .5 || (rest === .5 && tenths % 2)) tenths++;
  return `${bytes < 0 ? "-" : ""}${tenths / 10} ${units[unit]}`;
}
const formatCount = (n) => n.toLocaleString("en-US");
const exactBytes = (bytes) => `${formatBytes(bytes)} (${formatCount(bytes)} bytes)`;
const formatShare = (part, whole) => whole ? `${(100 * part / whole).toFixed(1)}%` : "";

/** "conv2d backward, layer1.0.conv1"; a buffer that no op asked for has the name of its module or
    category. */
function opName({op, phase}) {
  return op && phase === "backward" && !isFetch(op) ? `${op} backward` : op;
}
function nameOf(b) {
  const from = originOf(b);
  return [opName(from), from.module].filter(Boolean).join(", ") || layers[categoryOf[b]].name;
}
/** What became of a value that was not kept; "" for others. */
function fateOf(b) {
  const request = (other) => `request ${formatCount(other + 1)}`;
  const back = {[kRebuilt]: "rebuilt for backward", [kFetched]: "fetched for backward"};
  if (back[categoryOf[b]])
    return back[categoryOf[b]] +
           (firstLifeOf[b] < 0 ? "" : `, first made as ${request(firstLifeOf[b])}`);
  const later = laterLives.get(b);
  if (!later) return "";
  const gone = categoryOf[b] === kMoved ? "moved to the host" : "dropped";
  const times = later.length > 1 ? ` ${formatCount(later.length)} times, first` : "";
  return `${gone}, ${back[laterLayer(later[0])]}${times} as ${request(later[0])}`;
}
function lifeOf(b) {
  const until = deathOf[b] === end ? "held to the end" : `freed after ${formatCount(deathOf[b])}`;
  return `request ${formatCount(b + 1)}, ${until}`;
}
