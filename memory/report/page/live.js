"use strict";
// Live bytes over time: categories stacked, the peak, the budget, and what was measured.

const kRibbon = 18;

class LivePlot extends Plot {
  constructor() { super("live", 400, 30 + kRibbon * ribbons.length); }

  draw(state) {
    const most = total[peakIn(state.begin, state.finish)];
    const seen = measured.flatMap((run) => run.live.filter(
      (_, i) => run.begin + i >= state.begin && run.begin + i < state.finish));
    const needed = Math.max(most, seen.reduce((a, b) => Math.max(a, b), 0));
    const budget = page.budget <= needed * 1.6 ? page.budget : 0;
    this.scale(state.begin, state.finish, Math.max(needed, budget) * 1.04);
    this.axes();
    this.stack();
    this.sectionLines();
    ribbons.forEach((spans, i) => this.ribbon(spans, this.lower + 6 + i * kRibbon, kRibbon - 2));
    this.timeTicks(this.height - 10);
    this.budgetLine();
    for (const run of measured) this.measuredLine(run);
    this.peak(state.peak);
  }

  stack() {
    const c = this.context, fills = layerFills(c);
    this.columns(this.begin, this.finish, (x, width, t) => {
      let sum = 0, y = this.snap(this.y(0));
      for (const category of stackOrder) {
        if (!liveOf[category][t]) continue;
        sum += liveOf[category][t];
        const upper = this.snap(this.y(sum));
        c.fillStyle = fills[category];
        c.fillRect(x, upper, width, y - upper);
        if (y - upper > 3) {  // a gap between neighbours
          c.fillStyle = colour("surface");
          c.fillRect(x, upper, width, 1);
        }
        y = upper;
      }
    });
  }
  sectionLines() {
    for (const [, begin, finish] of page.sections)
      for (const t of [begin, finish])
        if (t > this.begin && t < this.finish)
          this.line(this.x(t), this.upper, this.x(t), this.lower, colour("muted"), 1);
  }
  measuredLine(run) {
    const c = this.context;
    c.beginPath();
    this.columns(run.begin, run.begin + run.live.length, (x, width, t) => {
      const y = this.y(run.live[t - run.begin]);
      c.lineTo(x, y);
      c.lineTo(x + width, y);
    });
    c.strokeStyle = colour("ink");
    c.lineWidth = 1.5;
    c.setLineDash([5, 3]);
    c.stroke();
    c.setLineDash([]);
  }
  peak(t) {
    const x = this.x(t + .5), y = this.y(total[t]), c = this.context;
    c.beginPath();
    c.arc(x, y, 4, 0, 2 * Math.PI);
    c.fillStyle = colour("ink");
    c.fill();
    c.strokeStyle = colour("surface");
    c.lineWidth = 2;
    c.stroke();
    this.label(`peak ${formatBytes(total[t])}`, x, Math.max(y - 16, 10), "center");
  }

  hit(x, y) {
    const t = this.timeAt(x);
    return {t, buffer: bufferAt(t, this.bytesAt(y))};
  }
  highlight(b, alpha) {
    const edges = lowerEdges(b), c = this.context;
    this.columns(b, deathOf[b], (x, width, t) => {
      const lower = this.y(edges[t - b]), upper = this.y(edges[t - b] + bytesOf[b]);
      c.fillStyle = colour("ink");
      c.globalAlpha = alpha;
      c.fillRect(x, upper, width, Math.max(lower - upper, 1.5));
      c.globalAlpha = 1;
      c.fillRect(x, upper - .5, width, 1.5);
      c.fillRect(x, lower - 1, width, 1.5);
    });
  }
  anchor(b, t) {
    const at = Math.max(b, this.begin, Math.min(t, deathOf[b] - 1));
    return {x: this.x(at + .5), y: this.y((lowerEdges(b)[at - b] ?? 0) + bytesOf[b] / 2)};
  }
}
