"use strict";
// A canvas with a scale of time and one of bytes. Colours come from style.css.

const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
/** What each layer is painted with. */
function layerFills(context) {
  return layers.map(({colour: name, stripes}) =>
    stripes ? striped(context, colour(name), stripes.split(" ")) : colour(name));
}
/** Slanting stripes: rising thick ones or falling thin ones, or such that cross. */
function striped(context, fill, stripes) {
  const isThick = stripes.includes("thick"), isCrossed = stripes.includes("crossed");
  const size = 8, tile = document.createElement("canvas"), c = tile.getContext("2d");
  tile.width = tile.height = size;
  c.fillStyle = colour("surface");
  c.fillRect(0, 0, size, size);
  c.strokeStyle = fill;
  c.lineWidth = (isThick ? 4 : 2) / (isCrossed ? 1.5 : 1);
  for (const rises of isCrossed ? [false, true] : [isThick]) {
    if (rises) c.setTransform(1, 0, 0, -1, 0, size);
    for (const shift of [-size, 0, size]) {
      c.beginPath();
      c.moveTo(shift - size, -size);
      c.lineTo(shift + 2 * size, 2 * size);
      c.stroke();
    }
  }
  return context.createPattern(tile, "repeat");
}
const kFont = '12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

/** A step of 1, 2 or 5 times a power of ten that gives at most `most` ticks. */
function decimalStep(range, most) {
  let step = 1;
  for (let i = 0; range / step > most; i++) step *= i % 3 === 1 ? 2.5 : 2;  // 1, 2, 5, 10
  return step;
}
/** A power of two, so that ticks are whole numbers of units. */
function binaryStep(range, most) {
  let step = 1;
  while (range / step > most) step *= 2;
  return step;
}

/** Exact, as ticks are few and even: "1.125 GiB". */
function formatTick(bytes) {
  let unit = 0;
  for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
  return `${Number(bytes.toFixed(3))} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

class Plot {
  constructor(id, height, below) {
    this.canvas = document.getElementById(id);
    this.context = this.canvas.getContext("2d");
    this.height = height;
    this.below = below;  // room for ticks and ribbons
  }

  /** Sets the scales: times [begin, finish) across, bytes [0, top] up. */
  scale(begin, finish, top) {
    const width = this.canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    Object.assign(this, {begin, finish, top: top || 1, width, ratio});
    this.left = 70;
    this.right = width - 6;
    this.upper = 22;
    this.lower = this.height - this.below;
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.font = kFont;
    this.context.textBaseline = "middle";
  }
  x(t) {
    return this.left + (t - this.begin) / (this.finish - this.begin) * (this.right - this.left);
  }
  y(bytes) { return this.lower - bytes / this.top * (this.lower - this.upper); }
  /** On the canvas's own pixels. */
  snap(v) { return Math.round(v * this.ratio) / this.ratio; }
  timeAt(x) {
    const t = this.begin + (x - this.left) / (this.right - this.left) * (this.finish - this.begin);
    return Math.min(this.finish - 1, Math.max(this.begin, Math.floor(t)));
  }
  bytesAt(y) { return (this.lower - y) / (this.lower - this.upper) * this.top; }

  /** Columns one pixel wide or more: for each the time in it with the most live bytes, so that no
      peak is lost between pixels. Calls draw(left, width, t). */
  columns(begin, finish, draw) {
    const from = Math.max(begin, this.begin), to = Math.min(finish, this.finish);
    let t = from;
    while (t < to) {
      const left = this.snap(this.x(t));
      let next = t + 1;
      while (next < to && this.snap(this.x(next + 1)) <= left + 1 / this.ratio) next++;
      const right = this.snap(this.x(next));
      if (right > left) draw(left, right - left, peakIn(t, next));
      t = next;
    }
  }

  text(text, x, y, align = "left", fill = colour("muted")) {
    this.context.fillStyle = fill;
    this.context.textAlign = align;
    this.context.fillText(text, x, y);
  }
  /** With the surface behind it, within the plot. */
  label(text, x, y, align) {
    const width = this.context.measureText(text).width + 8;
    let left = align === "right" ? x - width : align === "center" ? x - width / 2 : x;
    left = Math.max(this.left, Math.min(left, this.right - width));
    this.context.fillStyle = colour("surface");
    this.context.globalAlpha = .88;
    this.context.fillRect(left, y - 9, width, 18);
    this.context.globalAlpha = 1;
    this.text(text, left + 4, y, "left", colour("ink"));
  }
  line(x0, y0, x1, y1, stroke, width = 1, dash = []) {
    const c = this.context;
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.setLineDash(dash);
    c.beginPath();
    c.moveTo(x0, y0);
    c.lineTo(x1, y1);
    c.stroke();
    c.setLineDash([]);
  }

  axes() {
    this.context.clearRect(0, 0, this.width, this.height);
    const step = binaryStep(this.top, Math.max(2, (this.lower - this.upper) / 36));
    for (let v = 0; v <= this.top; v += step) {
      const y = Math.round(this.y(v)) + .5;
      this.line(this.left, y, this.right, y, colour("grid"));
      this.text(formatTick(v), this.left - 8, y, "right");
    }
  }
  timeTicks(y) {
    const step = decimalStep(this.finish - this.begin, Math.max(2, (this.right - this.left) / 80));
    const title = "requests";
    const room = this.right - this.context.measureText(title).width - 14;
    for (let t = Math.ceil(this.begin / step) * step; t < this.finish; t += step) {
      const text = formatCount(t), half = this.context.measureText(text).width / 2;
      if (this.x(t) + half < room) this.text(text, Math.max(this.x(t), this.left + half), y, "center");
    }
    this.text(title, this.right, y, "right");
  }
  /** Spans of time with their names, or the ends of these, where they fit. */
  ribbon(spans, y, height) {
    let shade = 0;
    for (const span of spans) {
      if (!span.text || span.end <= this.begin || span.begin >= this.finish) continue;
      const x0 = this.snap(this.x(Math.max(span.begin, this.begin)));
      const x1 = this.snap(this.x(Math.min(span.end, this.finish)));
      this.context.fillStyle = colour(shade++ % 2 ? "band" : "band-2");
      this.context.fillRect(x0, y, Math.max(x1 - x0 - 1, .5), height);
      const name = [span.text, span.text.split(".").at(-1)].find(
        (text) => this.context.measureText(text).width + 6 < x1 - x0);
      if (name) this.text(name, (x0 + x1) / 2, y + height / 2 + .5, "center", colour("ink"));
    }
  }
  budgetLine() {
    if (!page.budget) return;
    const text = `budget ${formatBytes(page.budget)}`;
    if (page.budget > this.top) {
      this.label(`${text} ↑`, this.right, this.upper - 11, "right");
      return;
    }
    const y = Math.round(this.y(page.budget)) + .5;
    this.line(this.left, y, this.right, y, colour("ink"), 1.5, [7, 4]);
    this.label(text, this.right, y - 11, "right");
  }
  cursor(t) {
    if (t < this.begin || t >= this.finish) return;
    const x = Math.round(this.x(t + .5)) + .5;
    this.line(x, this.upper, x, this.lower, colour("ink"), 1, [2, 3]);
  }
  /** The span that a drag is about to zoom to. */
  brush(x0, x1) {
    this.context.globalAlpha = .25;
    this.context.fillStyle = colour("accent");
    this.context.fillRect(Math.min(x0, x1), this.upper, Math.abs(x1 - x0), this.lower - this.upper);
    this.context.globalAlpha = 1;
  }
}
