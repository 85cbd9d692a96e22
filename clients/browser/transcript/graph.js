// The last minute of a few durations as a small graph, with a summary for those who do not see it.

const WINDOW = 60_000; // ms
const SHORTEST = 15_000; // ms that it is wide at least
const MOST = 1200; // points kept
const JOINED = 50; // ms between two ticks of one line, besides the ticks themselves
const EDGE = { left: 34, right: 6, top: 8, bottom: 6 }; // pixels
const STEPS = [1, 2, 4, 8, 16, 32, 64]; // seconds, the heights to choose from
const NAMES = {
  first: "first text",
  lag: "commit lag",
  tick: "tick",
  final: "final text",
};

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const inSeconds = (milliseconds) => (milliseconds / 1000).toFixed(2);

export class Graph {
  // box: a figure with an svg, and an element of class "value" for each series in data-series.
  constructor(box) {
    this.box = box;
    this.picture = box.querySelector("svg");
    this.points = []; // {series, at, value}: milliseconds
    this.isStale = false;
    new ResizeObserver(() => this.draw()).observe(this.picture);
  }

  // series: a name of NAMES; value: milliseconds.
  add(series, value) {
    this.points.push({ series, at: performance.now(), value: Math.max(0, value) });
    if (this.points.length > MOST) this.points.splice(0, MOST / 4);
    this.box.hidden = false;
    if (this.isStale) return;
    this.isStale = true; // several come at once
    setTimeout(() => {
      this.isStale = false;
      this.draw();
    });
  }

  clear() {
    this.points = [];
    this.box.hidden = true;
  }

  // The values of a series that are in the picture.
  values(series) {
    return this.visible.filter((point) => point.series === series).map(({ value }) => value);
  }

  get visible() {
    const end = this.points.at(-1)?.at ?? 0;
    return this.points.filter(({ at }) => at > end - WINDOW);
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.picture;
    if (!width || !this.points.length) return;
    const points = this.visible;
    const highest = Math.max(...points.map(({ value }) => value)) / 1000;
    const top = STEPS.find((step) => step >= highest) ?? Math.ceil(highest);
    const end = points.at(-1).at;
    const span = Math.max(SHORTEST, end - points[0].at);
    const wide = width - EDGE.left - EDGE.right;
    const x = (at) => (EDGE.left + wide * (1 - (end - at) / span)).toFixed(1);
    const y = (seconds) =>
      (EDGE.top + (height - EDGE.top - EDGE.bottom) * (1 - seconds / top)).toFixed(1);
    const lines = [0, top / 2, top].map((seconds) =>
      svg(
        "g",
        { class: "line" },
        svg("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y(seconds), y2: y(seconds) }),
        svg("text", { x: EDGE.left - 6, y: y(seconds), dy: "0.32em" }, `${seconds} s`),
      ),
    );
    let path = "";
    let before = -Infinity;
    for (const { at, value } of points.filter(({ series }) => series === "tick")) {
      const isNext = at - value < before + JOINED; // else a new turn begins
      path += `${isNext ? "L" : "M"}${x(at)} ${y(value / 1000)}h0`;
      before = at;
    }
    const marks = points
      .filter(({ series }) => series !== "tick")
      .map(({ series, at, value }) => mark(series, +x(at), +y(value / 1000)));
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.picture.replaceChildren(
      ...lines,
      svg("path", { class: "tick", d: path }),
      ...marks,
    );
    this.tell(Math.round(span / 1000));
  }

  tell(seconds) {
    const said = [];
    this.box.querySelector(".span").textContent = `last ${seconds} s`;
    for (const [series, name] of Object.entries(NAMES)) {
      const values = this.values(series);
      const label = this.box.querySelector(`[data-series="${series}"]`);
      label.hidden = !values.length;
      if (!values.length) continue;
      label.querySelector(".value").textContent = `${inSeconds(median(values))} s`;
      const worst = values.length > 1 ? `, at most ${inSeconds(Math.max(...values))}` : "";
      said.push(`${name} ${inSeconds(median(values))} seconds${worst}`);
    }
    this.picture.setAttribute("aria-label", `Latency in the last ${seconds} seconds: ${said.join("; ")}.`);
  }
}

// A diamond, a dot or a square around (x, y).
function mark(series, x, y) {
  if (series === "lag") return svg("circle", { class: series, cx: x, cy: y, r: 2.5 });
  const shape =
    series === "first" ? `M${x} ${y - 5}l5 5l-5 5l-5-5z` : `M${x - 3.5} ${y - 3.5}h7v7h-7z`;
  return svg("path", { class: series, d: shape });
}
