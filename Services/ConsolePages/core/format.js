// Words for figures: counts, bytes, dates and spans, the same on every page.

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-GB", { notation: "compact", maximumSignificantDigits: 3 });
const dayAndTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export const count = (value) => (Number.isFinite(value) ? whole.format(value) : "–");

export function figure(value) {
  if (!Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 10000) return short.format(value);
  if (Math.abs(value) >= 100 || Number.isInteger(value)) return whole.format(value);
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}

export function bytes(value) {
  if (!Number.isFinite(value)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let index = 0;
  let rest = Math.abs(value);
  while (rest >= 999.5 && index < units.length - 1) {
    rest /= 1000;
    index += 1;
  }
  const digits = index === 0 || rest >= 100 ? 0 : 1;
  return `${value < 0 ? "−" : ""}${rest.toFixed(digits)} ${units[index]}`;
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return plural(Math.floor(seconds / 86400), "day");
}

export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

/** A date from milliseconds since 1970 or from RFC 3339; null for anything else. */
export function instant(value) {
  if (value === null || value === undefined || value === "") return null;
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? null : date;
}

export function date(value) {
  const found = instant(value);
  return found ? dayAndTime.format(found) : "–";
}

export function time(value) {
  const found = instant(value);
  return found ? found.toISOString().slice(11, 23) : "–";
}

export function ago(value, now = Date.now()) {
  const found = instant(value);
  if (!found) return "–";
  const seconds = (now - found.getTime()) / 1000;
  if (Math.abs(seconds) < 1.5) return "now";
  const whole = Math.round(Math.abs(seconds));
  const words = whole < 60 ? `${whole} s` : duration(whole);
  return seconds > 0 ? `${words} ago` : `in ${words}`;
}

/** The first letters of a long name, and its end. */
export function brief(name, length = 14) {
  const text = String(name ?? "");
  return text.length > length ? `${text.slice(0, length - 5)}…${text.slice(-4)}` : text;
}
