// Line plots in SVG: an hour of up to four series, with the values under the pointer.

import { freshID, h, replace, s } from "../core/dom.js";

const WIDTH = 640;
const TOP = 8;
const POINTS = 240;
const SPAN = 3600;

/**
 * A plot. `lines` are `[label, () => ({times, values})]`; `format` writes a value. `update()` draws it anew.
 * @returns {{view: HTMLElement, update: () => void}}
 */
export function chart(title, lines, format, { height = 120, span = SPAN } = {}) {
  const summary = freshID("plot");
  const drawing = s("svg", {
    viewBox: `0 0 ${WIDTH} ${height}`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-labelledby": summary,
  });
  const top = h("span", { class: "top-value" });
  const legend = h("div", { class: "legend" });
  const said = h("span", { class: "unseen", id: summary });
  const since = h("span");
  const plot = h("div", { class: "plot", vars: { "--plot-height": `${height}px` } }, drawing, top);
  const view = h(
    "figure",
    { class: "chart" },
    h("figcaption", null, h("h3", null, title), legend),
    plot,
    h("div", { class: "times small soft", "aria-hidden": "true" }, since, h("span", null, "now")),
    said,
  );
  let pointer = null;
  let lastDrawn = null;

  function update() {
    const now = Date.now() / 1000;
    const shown = lines.map(([label, read]) => ({ label, points: thinned(read(), now - span) }));
    const first = Math.min(...shown.map(({ points }) => points[0]?.[0] ?? now));
    const start = Math.max(now - span, Math.min(first, now - 60));
    const most = Math.max(...shown.flatMap(({ points }) => points.map((point) => point[1])), 0);
    const ceiling = rounded(most);
    const x = (time) => ((time - start) / (now - start)) * WIDTH;
    const y = (value) => height - 1 - (value / ceiling) * (height - TOP - 1);
    lastDrawn = { shown, start, now };
    replace(
      drawing,
      grid(height),
      shown.map(({ points }, index) => line(points, x, y, height, index, shown.length)),
      cross(),
    );
    replace(top, most > 0 ? format(ceiling) : "");
    replace(since, start <= now - span + 30 ? "1 h ago" : `${Math.max(1, Math.round((now - start) / 60))} min ago`);
    tell();
  }

  /** Values at the pointer, or the latest. */
  function tell() {
    const { shown, start, now } = lastDrawn;
    const at = pointer === null ? null : start + pointer * (now - start);
    const values = shown.map(({ label, points }) => [label, nearest(points, at)]);
    replace(
      legend,
      values.map(([label, point], index) =>
        h(
          "span",
          { class: "key", "data-line": index + 1 },
          label && h("span", null, label),
          h("b", { class: "number" }, point ? format(point[1]) : "–"),
        ),
      ),
    );
    if (pointer === null)
      replace(
        said,
        `${title}: ${values.map(([label, point]) => `${label} ${point ? format(point[1]) : "no value"}`).join(", ")}`,
      );
  }

  const cross = () =>
    pointer !== null &&
    s("line", {
      class: "cross",
      x1: pointer * WIDTH,
      x2: pointer * WIDTH,
      y1: 0,
      y2: height,
      "vector-effect": "non-scaling-stroke",
    });
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    pointer = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
    update();
  });
  plot.addEventListener("pointerleave", () => {
    pointer = null;
    update();
  });
  update();
  return { view, update };
}

const grid = (height) =>
  [0.5, 1].map((part) =>
    s("line", {
      class: "rule",
      x1: 0,
      x2: WIDTH,
      y1: height - 1 - part * (height - TOP - 1),
      y2: height - 1 - part * (height - TOP - 1),
      "vector-effect": "non-scaling-stroke",
    }),
  );

function line(points, x, y, height, index, count) {
  if (!points.length) return null;
  const path = points
    .map(([time, value], place) => `${place ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`)
    .join("");
  const area = `${path}L${x(points.at(-1)[0]).toFixed(1)} ${height}L${x(points[0][0]).toFixed(1)} ${height}Z`;
  return [
    count === 1 && s("path", { class: "area", d: area }),
    s("path", { class: "line", "data-line": index + 1, d: path, "vector-effect": "non-scaling-stroke" }),
  ];
}

/** The greatest value of each part of the hour, so that a peak of one second is seen. */
function thinned({ times, values }, start) {
  const from = times.findIndex((time) => time >= start);
  if (from < 0) return [];
  const size = Math.max(1, Math.ceil((times.length - from) / POINTS));
  const points = [];
  for (let index = from; index < times.length; index += size) {
    let best = index;
    for (let other = index; other < Math.min(index + size, times.length); other += 1) {
      if (values[other] > values[best]) best = other;
    }
    points.push([times[best], values[best]]);
  }
  return points;
}

function nearest(points, time) {
  if (!points.length) return null;
  if (time === null) return points.at(-1);
  return points.reduce((best, point) => (Math.abs(point[0] - time) < Math.abs(best[0] - time) ? point : best));
}

/** The next of 1, 2, 5, 10, 20, …, so that the scale rarely jumps. */
function rounded(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * power >= value) * power;
}

/** A line of the last values without axes. */
export function spark(values) {
  const width = 90;
  const height = 22;
  const most = Math.max(...values, 1e-9);
  const step = width / Math.max(values.length - 1, 1);
  const d = values.map(
    (value, index) =>
      `${index ? "L" : "M"}${(index * step).toFixed(1)} ` +
      `${(height - 2 - (Math.max(value ?? 0, 0) / most) * (height - 4)).toFixed(1)}`,
  );
  return s(
    "svg",
    { class: "spark", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    s("path", { class: "line", "data-line": 1, d: d.join("") || "M0 0" }),
  );
}
