// The value of a field, shown and edited by its type.

import { h, replace } from "../../core/dom.js";
import { bytes, date } from "../../core/format.js";
import { link } from "../../core/router.js";
import { input } from "../../parts/parts.js";

/** Characters of a text that a line shows. */
const LONGEST = 300;
/** An object's ID, which is its record name. */
export const NAME = /^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$/i;
const IMAGES = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
  ["image/webp", [0x52, 0x49, 0x46, 0x46]],
];

/** `place` is where the record is: `{container, environment, owner, zone}`. */
export function valueView(field, place) {
  const { type = "", value } = field ?? {};
  if (value === null || value === undefined) return h("span", { class: "soft" }, "empty");
  if (Array.isArray(value))
    return h(
      "ul",
      null,
      value.map((each) => h("li", null, valueView({ type: type.replace("_LIST", ""), value: each }, place))),
    );
  if (type === "TIMESTAMP") return h("span", { title: String(value) }, date(value));
  if (type === "REFERENCE") return reference(value.recordName, value.zoneID?.zoneName, place, value.action);
  if (type === "ASSETID" || value.downloadURL) return asset(value);
  if (type === "BYTES") return bytesView(value);
  if (type === "LOCATION") return h("span", { class: "number" }, `${value.latitude}, ${value.longitude}`);
  if (typeof value === "object") return h("code", null, JSON.stringify(value));
  if (type === "STRING" && NAME.test(value)) return reference(value, undefined, place);
  return h("span", { class: "value" }, String(value));
}

function reference(name, zone, place, action) {
  if (!place) return h("code", null, name);
  const to = link("data", [place.container, place.environment, place.owner, zone ?? place.zone, name]);
  return h(
    "span",
    null,
    h("a", { href: to, class: "mono" }, name),
    action && action !== "NONE" && h("small", { class: "soft" }, ` ${action}`),
  );
}

/** The size of an asset, and a picture of it once the reader asks or when it is small. */
function asset(value) {
  const view = h(
    "div",
    { class: "value" },
    h("span", null, `${bytes(value.size)} `),
    h("code", { class: "small soft" }, value.fileChecksum ?? ""),
  );
  if (!value.downloadURL) return view;
  const shown = h("div");
  view.append(shown);
  const load = () => preview(shown, value);
  if (value.size <= 2_000_000) load();
  else replace(shown, h("button", { type: "button", class: "button quiet", on: { click: load } }, "Show"));
  return view;
}

async function preview(shown, value) {
  // The address may name the server otherwise than this page does: its path is the same.
  const address = new URL(value.downloadURL, window.location.href);
  const answer = await fetch(address.pathname + address.search, { redirect: "manual" }).catch(() => null);
  if (!answer?.ok) {
    const words =
      answer?.type === "opaqueredirect"
        ? "The content is in a bucket, from which this page loads nothing. `aquifer zone export` fetches it."
        : "The content can't be loaded. Its address is good for 15 minutes: reload the page.";
    replace(shown, h("span", { class: "small soft" }, words));
    return;
  }
  showPicture(shown, new Uint8Array(await answer.arrayBuffer()));
}

/** Bytes that are in the record itself, in base64. */
function bytesView(value) {
  const content = Uint8Array.from(atob(value), (letter) => letter.charCodeAt(0));
  const shown = h("div");
  showPicture(shown, content);
  return h("div", { class: "value" }, bytes(content.length), shown);
}

function showPicture(shown, content) {
  const type = IMAGES.find(([, start]) => start.every((byte, index) => content[index] === byte))?.[0];
  if (!type) {
    replace(
      shown,
      h(
        "code",
        { class: "small soft" },
        [...content.slice(0, 24)].map((byte) => byte.toString(16).padStart(2, "0")).join(" "),
        content.length > 24 && " …",
      ),
    );
    return;
  }
  const url = URL.createObjectURL(new Blob([content], { type }));
  const free = { load: () => URL.revokeObjectURL(url), error: () => URL.revokeObjectURL(url) };
  replace(shown, h("img", { src: url, alt: "Preview of the asset", on: free }));
}

/** The value as one line, for tables and diffs. */
export function valueText(field) {
  const { type, value } = field ?? {};
  if (value === null || value === undefined) return "";
  if (type === "TIMESTAMP" && !Array.isArray(value)) return date(value);
  if (type === "REFERENCE" && value.recordName) return value.recordName;
  if (value.fileChecksum) return `${bytes(value.size)} asset`;
  if (type === "BYTES" && typeof value === "string") return bytes(decodedLength(value));
  return shortened(typeof value === "object" ? JSON.stringify(value) : String(value));
}

/** The number of bytes that a text in base64 stands for. */
const decodedLength = (text) => Math.floor(text.replace(/=+$/, "").length * 0.75);

const shortened = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}… (${text.length} characters)` : text);

/** A value as JSON for reading, with long texts cut. */
export const jsonText = (value) =>
  JSON.stringify(value, (_, each) => (typeof each === "string" ? shortened(each) : each), 2);

const EDITABLE = new Set([
  "STRING",
  "INT64",
  "DOUBLE",
  "NUMBER_INT64",
  "NUMBER_DOUBLE",
  "TIMESTAMP",
  "REFERENCE",
  "LOCATION",
]);

export const isEditable = (type) => EDITABLE.has(type) || /^LIST<(STRING|INT64|DOUBLE)>$|_LIST$/.test(type);

/**
 * A control for a value. `read()` gives `{type, value}`, null for an empty one, and throws a sentence. Undefined for a
 * value that the control can't hold: a date beyond those of a browser, a list with a number that a browser rounds.
 */
export function valueEditor(type, field) {
  const start = field?.value ?? null;
  if (/^LIST<|_LIST$/.test(type)) return jsonEditor(type, start);
  if (type === "TIMESTAMP") return timestampEditor(start);
  if (type === "LOCATION") return locationEditor(start);
  const isNumber = /INT64|DOUBLE/.test(type);
  const control =
    type === "STRING"
      ? h("textarea", { rows: Math.min(8, String(start ?? "").split("\n").length), value: start ?? "" })
      : input({
          value: type === "REFERENCE" ? (start?.recordName ?? "") : (start ?? ""),
          inputmode: isNumber ? "decimal" : undefined,
        });
  const read = () => {
    if (type === "STRING" && control.value === "" && start !== "") return null;
    if (type !== "STRING" && control.value.trim() === "") return null;
    if (type === "REFERENCE")
      return { type, value: { ...(start ?? { action: "NONE" }), recordName: control.value.trim() } };
    return { type, value: isNumber ? number(control.value, type) : control.value };
  };
  return { control, read };
}

function number(text, type) {
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Error(`“${text}” is not a number`);
  return exact(value, text, type);
}

function exact(value, text, type) {
  if (/INT64/.test(type) && !Number.isSafeInteger(value))
    throw new Error(`“${text}” is not a whole number that a browser holds exactly`);
  return value;
}

function timestampEditor(start) {
  const day = new Date(start ?? 0);
  const text = start === null || Number.isNaN(day.getTime()) ? "" : day.toISOString().slice(0, -1);
  const control = input({ type: "datetime-local", step: "0.001", value: text });
  // The control empties itself of the year 0 and of years that have a sign.
  if (start !== null && !control.value) return undefined;
  const read = () => (control.value ? { type: "TIMESTAMP", value: Date.parse(`${control.value}Z`) } : null);
  return { control, read, hint: "UTC" };
}

function locationEditor(start) {
  const control = input({ value: start ? `${start.latitude}, ${start.longitude}` : "" });
  const read = () => {
    if (!control.value.trim()) return null;
    const parts = control.value.split(",").map((part) => number(part, "DOUBLE"));
    if (parts.length !== 2) throw new Error("A location is a latitude and a longitude with a comma between");
    return { type: "LOCATION", value: { ...start, latitude: parts[0], longitude: parts[1] } };
  };
  return { control, read, hint: "Latitude, longitude" };
}

function jsonEditor(type, start) {
  if (/INT64/.test(type) && !(start ?? []).every(Number.isSafeInteger)) return undefined;
  const control = h("textarea", { value: start === null ? "" : JSON.stringify(start) });
  const read = () => {
    if (!control.value.trim()) return null;
    let value;
    try {
      value = JSON.parse(control.value);
    } catch {
      throw new Error('A list is written as JSON, such as ["a","b"]');
    }
    if (!Array.isArray(value)) throw new Error("A list is written in brackets");
    for (const each of value) if (typeof each === "number") exact(each, String(each), type);
    return { type: type.startsWith("LIST<") ? `${type.slice(5, -1)}_LIST` : type, value };
  };
  return { control, read, hint: "A list as JSON" };
}
