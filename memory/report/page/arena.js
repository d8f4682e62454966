"use strict";
// The arena: a rectangle a buffer, from its birth to its death, from its offset as far as its bytes.

class ArenaPlot extends Plot {
  constructor() { super("arena", 440, 26); }

  draw(state) {
    const budget = page.budget <= page.arena_bytes * 1.6 ? page.budget : 0;
    this.scale(state.begin, state.finish, Math.max(page.arena_bytes, budget) * 1.02);
    this.axes();
    const c = this.context, fills = layerFills(c);
    for (let b = 0; b < end; b++) {
      const box = this.box(b);
      if (!box) continue;
      c.fillStyle = fills[categoryOf[b]];
      const gap = box.width > 3 && box.height > 3 ? 1 / this.ratio : 0;
      c.fillRect(box.x, box.y, box.width - gap, box.height - gap);
    }
    const y = Math.round(this.y(page.arena_bytes)) + .5;
    this.line(this.left, y, this.right, y, colour("ink"), 1);
    this.label(`arena ${formatBytes(page.arena_bytes)}`, this.left + 2, y - 11, "left");
    this.budgetLine();
    this.timeTicks(this.height - 10);
  }

  /** On the canvas; null for a buffer that is not in the picture. */
  box(b) {
    if (offsetOf[b] < 0 || !bytesOf[b] || b >= this.finish || deathOf[b] <= this.begin) return null;
    const x = this.snap(this.x(Math.max(b, this.begin)));
    const right = this.snap(this.x(Math.min(deathOf[b], this.finish)));
    const y = this.snap(this.y(offsetOf[b] + bytesOf[b])), lower = this.snap(this.y(offsetOf[b]));
    return {x, y, width: Math.max(right - x, 1 / this.ratio),
            height: Math.max(lower - y, 1 / this.ratio)};
  }
  hit(x, y) {
    const t = this.timeAt(x), address = this.bytesAt(y);
    let buffer = -1;
    for (let b = 0; b <= t && b < end; b++)
      if (deathOf[b] > t && offsetOf[b] >= 0 && offsetOf[b] <= address &&
          address < offsetOf[b] + bytesOf[b]) buffer = b;
    return {t, buffer};
  }
  highlight(b, alpha) {
    const box = this.box(b), c = this.context;
    if (!box) return;
    c.globalAlpha = alpha;
    c.fillStyle = colour("ink");
    c.fillRect(box.x, box.y, box.width, box.height);
    c.globalAlpha = 1;
    for (const [width, stroke] of [[4, "surface"], [2, "ink"]]) {
      c.lineWidth = width;
      c.strokeStyle = colour(stroke);
      c.strokeRect(box.x, box.y, box.width, box.height);
    }
  }
  anchor(b, t) {
    const box = this.box(b);
    return box && {x: Math.max(this.left, Math.min(this.x(t + .5), this.right)),
                   y: box.y + box.height / 2};
  }
}
