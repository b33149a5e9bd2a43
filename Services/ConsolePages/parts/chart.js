// Line plots on D3's axes: an hour of up to four series, with the values under the pointer.

import { freshID, h, replace, s } from "../core/dom.js";

const { d3 } = globalThis;
const HEIGHT = 156;
const EDGE = { top: 8, right: 10, bottom: 22, left: 58 };
const POINTS = 240;
/** Seconds. */
const SPAN = 3600;
/** Seconds without a value after which a line is interrupted, and a value is no longer the present one. */
const GAP = 60;
const PRESENT = 15;

/**
 * A plot. `lines()` gives `[[label, {times, values}]]`, times in seconds; `format` writes a value. `update()` draws it
 * anew.
 * @returns {{view: HTMLElement, update: () => void}}
 */
export function chart(title, lines, format) {
  const summary = freshID("plot");
  const [values, times, curves] = [s("g", { class: "axis" }), s("g", { class: "axis" }), s("g")];
  const cross = s("line", { class: "cross", y1: EDGE.top, y2: HEIGHT - EDGE.bottom, visibility: "hidden" });
  const drawing = s("svg", { role: "img", "aria-labelledby": summary }, values, times, curves, cross);
  const legend = h("div", { class: "legend" });
  const said = h("span", { class: "unseen", id: summary });
  const plot = h("div", { class: "plot", vars: { "--plot-height": `${HEIGHT}px` } }, drawing);
  const view = h("figure", { class: "chart" }, h("figcaption", null, h("h3", null, title), legend), plot, said);
  /** Pixels from the left edge; null: no pointer is there. */
  let pointer = null;

  function update() {
    const width = plot.clientWidth || 320;
    const now = Date.now() / 1000;
    const shown = lines().map(([label, series]) => ({ label, points: thinned(series, now - SPAN) }));
    const first = d3.min(shown, ({ points }) => points[0]?.[0]) ?? now;
    const start = Math.max(now - SPAN, Math.min(first, now - 60));
    const most = d3.max(shown, ({ points }) => d3.max(points, ([, value]) => value)) ?? 0;
    const x = d3.time
      .scale()
      .domain([start * 1000, now * 1000])
      .range([EDGE.left, width - EDGE.right]);
    const y = d3.scale
      .linear()
      .domain([0, most > 0 ? most : 1])
      .nice(3)
      .range([HEIGHT - EDGE.bottom, EDGE.top]);
    drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    drawAxes(width, x, y, most);
    replace(
      curves,
      shown.map(({ points }, index) => curve(points, x, y, index, shown.length)),
    );
    tell(shown, x, now, start);
  }

  function drawAxes(width, x, y, most) {
    const left = d3.svg.axis().scale(y).orient("left").tickFormat(format).tickPadding(6);
    left.ticks(3).tickSize(EDGE.left + EDGE.right - width, 0);
    // Nothing has happened: a scale up to 1 would be made up.
    if (most <= 0) left.tickValues([0]);
    d3.select(values).attr("transform", `translate(${EDGE.left},0)`).call(left);
    const below = d3.svg.axis().scale(x).orient("bottom").ticks(Math.max(2, Math.floor(width / 90)));
    const spansMinutes = x.domain()[1] - x.domain()[0] > 240_000;
    below.tickFormat(d3.time.format(spansMinutes ? "%H:%M" : "%H:%M:%S")).tickSize(4, 0).tickPadding(4);
    d3.select(times)
      .attr("transform", `translate(0,${HEIGHT - EDGE.bottom})`)
      .call(below);
  }

  /** Writes the values at the pointer, or those of the present. */
  function tell(shown, x, now, start) {
    const at = pointer === null ? null : x.invert(pointer) / 1000;
    const found = shown.map(({ label, points }) => [label, at === null ? present(points, now) : nearest(points, at)]);
    cross.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at !== null) for (const name of ["x1", "x2"]) cross.setAttribute(name, pointer);
    const words = (point) => (point ? format(point[1]) : "–");
    replace(
      legend,
      at !== null && h("span", { class: "key when number" }, d3.time.format("%H:%M:%S")(new Date(at * 1000))),
      found.map(([label, point], index) =>
        h(
          "span",
          { class: "key", "data-line": index + 1 },
          label && h("span", null, label),
          h("b", { class: "number" }, words(point)),
        ),
      ),
    );
    const since = now - start > SPAN - 60 ? "the last hour" : `the last ${Math.ceil((now - start) / 60)} min`;
    if (at === null)
      replace(said, `${title} of ${since}: ${found.map(([label, point]) => `${label} ${words(point)}`).join(", ")}`);
  }

  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    pointer = Math.max(EDGE.left, Math.min(box.width - EDGE.right, event.clientX - box.left));
    update();
  });
  plot.addEventListener("pointerleave", () => {
    pointer = null;
    update();
  });
  new ResizeObserver(update).observe(plot);
  return { view, update };
}

function curve(points, x, y, index, count) {
  const pieces = interrupted(points);
  const [across, up] = [(point) => x(point[0] * 1000), (point) => y(point[1])];
  const isDefined = (point) => point !== null;
  const line = d3.svg.line().defined(isDefined).x(across).y(up);
  const area = d3.svg.area().defined(isDefined).x(across).y0(y.range()[0]).y1(up);
  return [
    count === 1 && s("path", { class: "area", d: area(pieces) ?? "M0 0" }),
    s("path", { class: "line", "data-line": index + 1, d: line(pieces) ?? "M0 0" }),
  ];
}

/** The points with a null where no value is known for long. */
const interrupted = (points) =>
  points.flatMap((point, index) => (index && point[0] - points[index - 1][0] > GAP ? [null, point] : [point]));

/** The greatest value of each part of the hour, so that a peak of one second is seen. */
function thinned({ times, values }, start) {
  const from = d3.bisectLeft(times, start);
  const size = Math.max(1, Math.ceil((times.length - from) / POINTS));
  const points = [];
  for (let index = from; index < times.length; index += size) {
    let best = index;
    for (let other = index; other < Math.min(index + size, times.length); other += 1) {
      if (values[other] > values[best]) best = other;
    }
    points.push([times[best], values[best]]);
  }
  // The present value is the last one, whichever part it is in.
  if (times.length > from && points.at(-1)[0] !== times.at(-1)) points.push([times.at(-1), values.at(-1)]);
  return points;
}

const present = (points, now) => (points.length && now - points.at(-1)[0] < PRESENT ? points.at(-1) : null);

function nearest(points, time) {
  const after = d3.bisector(([at]) => at).left(points, time);
  const distance = (point) => Math.abs(point[0] - time);
  const near = [points[after - 1], points[after]].filter((point) => point && distance(point) < GAP);
  return near.sort((one, other) => distance(one) - distance(other))[0] ?? null;
}

/** A line of the last values without axes. */
export function spark(values) {
  const [width, height] = [90, 22];
  const x = d3.scale.linear().domain([0, Math.max(values.length - 1, 1)]).range([0, width]);
  const y = d3.scale.linear().domain([0, d3.max(values) || 1]).range([height - 2, 2]);
  const line = d3.svg
    .line()
    .x((_, index) => x(index))
    .y((value) => y(value ?? 0));
  return s(
    "svg",
    { class: "spark", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    s("path", { class: "line", "data-line": 1, d: values.length ? line(values) : "M0 0" }),
  );
}
