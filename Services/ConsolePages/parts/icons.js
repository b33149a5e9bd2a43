// The icons, drawn as lines of one width.

import { s } from "../core/dom.js";

const PATHS = {
  home: ["M3 11.5 12 4l9 7.5", "M5.5 10v9.5h13V10", "M10 19.5v-5h4v5"],
  data: ["M4 6c0-3.4 16-3.4 16 0s-16 3.4-16 0Z", "M4 6v12c0 3.4 16 3.4 16 0V6", "M4 12c0 3.4 16 3.4 16 0"],
  sync: ["M20 11a8 8 0 0 0-14.5-4L4 9", "M4 4v5h5", "M4 13a8 8 0 0 0 14.5 4l1.5-2", "M20 20v-5h-5"],
  schema: ["M4 4h6v6H4z", "M14 14h6v6h-6z", "M14 4h6v6h-6z", "M7 10v7h7"],
  people: [
    "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7Z",
    "M2.5 20c0-7 13-7 13 0",
    "M16 4.3a3.5 3.5 0 0 1 0 6.4",
    "M18 14.6c2.300.8 3.500 2.600 3.500 5.400",
  ],
  operations: [
    "M4 7h10",
    "M18 7h2",
    "M16 9a2 2 0 1 0 0-4 2 2 0 0 0 0 4Z",
    "M4 17h2",
    "M10 17h10",
    "M8 19a2 2 0 1 0 0-4 2 2 0 0 0 0 4Z",
  ],
  search: ["M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14Z", "m20 20-4-4"],
  sun: [
    "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8Z",
    "M12 2.500v2",
    "M12 19.500v2",
    "M2.500 12h2",
    "M19.500 12h2",
    "m5.300 5.300 1.400 1.400",
    "m17.300 17.300 1.400 1.400",
    "m18.700 5.300-1.400 1.400",
    "m6.700 17.300-1.400 1.400",
  ],
  moon: ["M20 14.500A8.500 8.500 0 0 1 9.500 4 8.500 8.500 0 1 0 20 14.500Z"],
  leave: ["M14 4H5v16h9", "M10 12h11", "m17 8 4 4-4 4"],
  close: ["m6 6 12 12", "M18 6 6 18"],
  plus: ["M12 5v14", "M5 12h14"],
  copy: ["M9 9h11v11H9z", "M5 15H4V4h11v1"],
  person: ["M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8Z", "M4.500 20.500c0-8 15-8 15 0"],
  drop: ["M12 3c4 5 6.500 8 6.500 11.500a6.500 6.500 0 0 1-13 0C5.500 11 8 8 12 3Z"],
};

export function icon(name) {
  const lines = (PATHS[name] ?? PATHS.drop).map((d) => s("path", { d }));
  return s(
    "svg",
    {
      viewBox: "0 0 24 24",
      fill: "none",
      stroke: "currentColor",
      "stroke-width": 1.7,
      "stroke-linecap": "round",
      "stroke-linejoin": "round",
      "aria-hidden": "true",
    },
    lines,
  );
}

export function mark() {
  const wave = (y) =>
    s("path", {
      d: `M5 ${y}c4-4 7 3 11 0s7-3 11 0`,
      stroke: "var(--accent-ink)",
      fill: "none",
      "stroke-width": 2.6,
      "stroke-linecap": "round",
    });
  return s(
    "svg",
    { viewBox: "0 0 32 32", "aria-hidden": "true" },
    s("rect", { width: 32, height: 32, rx: 9, fill: "var(--accent)" }),
    wave(12),
    wave(18),
    wave(24),
  );
}
