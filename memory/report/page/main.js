"use strict";
// The state of the page, and what mouse, keys and fingers do to it.

const state = {
  view: page.view, begin: 0, finish: 1, peak: 0,  // times shown, and the peak in them
  pointed: -1, chosen: -1,                        // buffers
  cursor: -1,                                     // time under the pointer, or of the keys
  table: -1,                                      // time of the tables, -1 for the peak
  filter: "", rows: 15, brush: null,
};
const live = new LivePlot();
const arena = page.buffers.offset.length ? new ArenaPlot() : null;
const plots = arena ? [live, arena] : [live];

// A picture is drawn once; what moves is drawn over a copy of it.
const pictures = new Map();
function redraw() {
  for (const plot of plots) {
    plot.draw(state);
    const copy = pictures.get(plot) ?? document.createElement("canvas");
    copy.width = plot.canvas.width;
    copy.height = plot.canvas.height;
    if (copy.width && copy.height) copy.getContext("2d").drawImage(plot.canvas, 0, 0);
    pictures.set(plot, copy);
  }
  overlayAll();
}
function overlayAll() {
  for (const plot of plots) {
    const c = plot.context, copy = pictures.get(plot);
    if (!copy.width || !copy.height) continue;
    c.save();
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, copy.width, copy.height);
    c.drawImage(copy, 0, 0);
    c.restore();
    c.save();
    c.beginPath();
    c.rect(plot.left, 0, plot.right - plot.left, plot.lower + 1);
    c.clip();
    if (state.chosen >= 0) plot.highlight(state.chosen, .5);
    if (state.pointed >= 0 && state.pointed !== state.chosen) plot.highlight(state.pointed, .28);
    if (state.cursor >= 0) plot.cursor(state.cursor);
    if (state.brush) plot.brush(...state.brush);
    c.restore();
  }
}
let waiting = false;
function later() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    overlayAll();
    legend();
  });
}

const when = (t) => t === state.peak ? "at the peak" : `after request ${formatCount(t + 1)}`;
function legend() {
  const t = state.cursor >= 0 ? state.cursor : state.peak;
  showLegend(t, when(t));
}
function tables() {
  const t = state.table >= 0 ? state.table : state.peak;
  byId("table-peak").hidden = t === state.peak;
  showBuffers(t, when(t), state, choose);
  showCategories(t, when(t)[0].toUpperCase() + when(t).slice(1), state);
  markRow(state.chosen);
}

/** Shows the times [begin, finish), as far as they are in the trace. */
function show(begin, finish) {
  const [, least, most] = page.views[state.view];
  state.begin = Math.max(least, Math.min(Math.floor(begin), most - 1));
  state.finish = Math.max(state.begin + 1, Math.min(Math.ceil(finish), most));
  state.peak = peakIn(state.begin, state.finish);
  state.cursor = state.pointed = -1;
  showTooltip(-1);
  redraw();
  legend();
  tables();
  describe();
}
function showView(view) {
  state.view = view;
  state.table = -1;
  byId("view").value = view;
  show(page.views[view][1], page.views[view][2]);
}
function zoom(factor) {
  const width = state.finish - state.begin;
  const middle = state.cursor >= 0 ? state.cursor + .5 : state.peak + .5;
  const share = (middle - state.begin) / width;
  const wide = Math.max(4, width * factor);
  const cursor = state.cursor;
  show(middle - share * wide, middle - share * wide + wide);
  state.cursor = cursor;
  later();
}
let opener = null;  // has the focus back when the details are closed
function choose(b, t = -1) {
  if (b >= 0) opener = document.activeElement;
  state.chosen = b;
  showDetails(b, state, {close, zoom: zoomTo});
  if (t >= 0 && t !== state.table) {
    state.table = t;
    tables();
  }
  markRow(b);
  later();
}
function zoomTo(b) {
  const margin = Math.max(2, (deathOf[b] - b) * .1);
  const [, least, most] = page.views[state.view];
  if (b < least || deathOf[b] > most) showView(0);
  show(b - margin, deathOf[b] + margin);
}
function close() {
  choose(-1);
  (opener?.isConnected ? opener : live.canvas).focus({preventScroll: true});
}
function toPeak() {
  state.table = -1;
  if (state.peak !== peakIn(page.views[state.view][1], page.views[state.view][2]))
    showView(state.view);
  state.cursor = state.peak;
  tables();
  later();
}

function describe() {
  const [label] = page.views[state.view];
  live.canvas.setAttribute("aria-label", `Live bytes, ${label.trim()}: peak ` +
    `${exactBytes(total[state.peak])} after request ${state.peak + 1}. Arrow keys move.`);
  arena?.canvas.setAttribute("aria-label",
    `Arena of ${exactBytes(page.arena_bytes)}, ${label.trim()}. Arrow keys move.`);
}

function point(plot, event) {
  const box = plot.canvas.getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  return {x, y, inside: x >= plot.left && x <= plot.right && y <= plot.lower, ...plot.hit(x, y)};
}
function leave() {
  state.pointed = state.cursor = -1;
  state.brush = null;
  showTooltip(-1);
  later();
}
function listen(plot) {
  const canvas = plot.canvas;
  let pressed = null;
  canvas.addEventListener("pointermove", (event) => {
    const at = point(plot, event);
    if (pressed && Math.abs(at.x - pressed.x) > 5) state.brush = [pressed.x, at.x];
    state.cursor = at.inside ? at.t : -1;
    state.pointed = at.inside && !state.brush ? at.buffer : -1;
    showTooltip(state.pointed, event.clientX, event.clientY);
    later();
  });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button === 0) pressed = point(plot, event);
  });
  canvas.addEventListener("pointerup", () => {
    const brush = state.brush;
    pressed = state.brush = null;
    if (!brush) return;
    canvas.dataset.dragged = "yes";  // the click that follows is none
    const [from, to] = [Math.min(...brush), Math.max(...brush)].map((x) => plot.timeAt(x));
    show(from, to + 1);
  });
  canvas.addEventListener("pointerleave", () => {
    pressed = null;
    leave();
  });
  canvas.addEventListener("click", (event) => {
    if (canvas.dataset.dragged) {
      delete canvas.dataset.dragged;
      return;
    }
    const at = point(plot, event);
    if (at.inside) choose(at.buffer, at.t);
  });
  canvas.addEventListener("keydown", (event) => key(plot, event));
  canvas.addEventListener("blur", leave);
}

/** Moves the cursor, or the buffer at it, and says what is there. */
function move(plot, steps, up) {
  const t = state.cursor < 0 ? state.peak
    : Math.max(state.begin, Math.min(state.cursor + steps, state.finish - 1));
  let stack = liveAt(t);
  if (plot === arena)
    stack = stack.filter((b) => offsetOf[b] >= 0).sort((a, b) => offsetOf[a] - offsetOf[b]);
  const at = stack.indexOf(state.pointed);
  state.cursor = t;
  state.pointed = at < 0 ? stack.at(-1) ?? -1
                         : stack[Math.max(0, Math.min(at + up, stack.length - 1))];
  later();
  const place = state.pointed < 0 ? null : plot.anchor(state.pointed, t);
  const box = plot.canvas.getBoundingClientRect();
  if (place) showTooltip(state.pointed, box.left + place.x, box.top + place.y);
  byId("spoken").textContent = `After request ${t + 1}: ${formatBytes(total[t])} live. ` +
    (state.pointed < 0 ? "" : `${nameOf(state.pointed)}, ${formatBytes(bytesOf[state.pointed])}.`);
}
function key(plot, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const far = event.shiftKey ? 10 : 1;
  const actions = {
    ArrowLeft: () => move(plot, -far, 0), ArrowRight: () => move(plot, far, 0),
    ArrowUp: () => move(plot, 0, far), ArrowDown: () => move(plot, 0, -far),
    Home: () => move(plot, -end, 0), End: () => move(plot, end, 0),
    Enter: () => state.pointed >= 0 && choose(state.pointed, state.cursor),
    "+": () => zoom(.5), "=": () => zoom(.5), "-": () => zoom(2),
    "0": () => showView(state.view), p: toPeak, P: toPeak,
  };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
}

function start() {
  byId("title").textContent = page.title;
  byId("subtitle").textContent = page.subtitle.join("\n");
  followTheme(redraw);
  showStats();
  byId("arena-figure").hidden = !arena;
  page.views.forEach(([label, , , depth], i) => byId("view").append(
    element("option", {value: i}, "\u00a0\u00a0".repeat(Math.max(0, depth - 1)) + label)));
  byId("view").addEventListener("change", (event) => showView(Number(event.target.value)));
  byId("zoom-in").addEventListener("click", () => zoom(.5));
  byId("zoom-out").addEventListener("click", () => zoom(2));
  byId("zoom-all").addEventListener("click", () => showView(state.view));
  byId("to-peak").addEventListener("click", toPeak);
  byId("table-peak").addEventListener("click", () => (state.table = -1, tables()));
  byId("filter").addEventListener("input", (event) => (state.filter = event.target.value, tables()));
  byId("more").addEventListener("click", () => (state.rows = Infinity, tables()));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.chosen >= 0) close();
  });
  plots.forEach(listen);
  showDetails(-1, state, {});
  if (!end) {
    byId("columns").replaceChildren(element("p", {}, "The trace holds no buffers."));
    byId("controls").hidden = true;
    return;
  }
  showView(page.view);
  new ResizeObserver(redraw).observe(live.canvas.parentElement);
}
start();
