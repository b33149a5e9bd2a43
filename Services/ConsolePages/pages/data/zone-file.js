// A zone as a file: lines of JSON, and a last one that vouches for those before it, as `aquifer zone export` writes.

import { CallError } from "../../core/api.js";
import { zoneCall } from "../../core/plane.js";

/** What one call of an import takes: 400 records, and less than 8 MiB. */
const LINES = 400;
const CHARACTERS = 1 << 20;

const isRecord = (line) => line.startsWith('{"record"');
const refusal = (reason) => new CallError(400, "BAD_REQUEST", reason);

/** All lines of the zone's export, page by page; `query` says of which time. */
export async function exportLines(at, query = {}, told = () => {}) {
  const lines = [];
  let next = query;
  for (;;) {
    const text = await zoneCall("GET", at, at.zone, "export", { query: next, as: "text" });
    const page = text.split("\n").filter(Boolean);
    const last = lastLine(page);
    if (!last?.more && !last?.end) throw new CallError(502, "NO_ANSWER", "The server's answer was cut short");
    lines.push(...page.slice(0, -1).filter((line) => !lines.length || !line.startsWith('{"format"')));
    told(lines.length);
    if (last.end) return lines;
    next = { sequence: last.sequence, after: last.after };
  }
}

function lastLine(lines) {
  try {
    return JSON.parse(lines.at(-1));
  } catch {
    return undefined;
  }
}

/** The file of an export's lines. */
export async function fileOf(lines) {
  const content = lines.map((line) => `${line}\n`).join("");
  const assets = lines.filter((line) => line.startsWith('{"asset"')).length;
  const last = { end: true, records: lines.filter(isRecord).length, assets, sha256: await digest(content) };
  return `${content}${JSON.stringify(last)}\n`;
}

/** The records of a file in pages for one call each. Throws what shows that the file is not whole. */
export async function pagesOf(text) {
  const lines = text.split("\n").filter(Boolean);
  const last = lastLine(lines);
  if (!last?.end) throw refusal("The file has no last line: it is no whole export");
  const records = lines.filter(isRecord);
  if (!records.length) throw refusal("The file has no records");
  if (last.records !== records.length)
    throw refusal(`The file has ${records.length} records, but its last line says ${last.records}`);
  const sum = await digest(text.slice(0, text.lastIndexOf(lines.at(-1))));
  if (sum && sum !== last.sha256) throw refusal("The file was changed after the export");
  const pages = [[]];
  let size = 0;
  for (const record of records) {
    if (pages.at(-1).length === LINES || (size && size + record.length > CHARACTERS)) {
      pages.push([]);
      size = 0;
    }
    pages.at(-1).push(record);
    size += record.length;
  }
  return pages;
}

/** SHA-256 in hexadecimal digits; undefined where a browser computes none, at an address without TLS. */
async function digest(text) {
  const sum = await crypto.subtle?.digest("SHA-256", new TextEncoder().encode(text));
  return sum && [...new Uint8Array(sum)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
