// A record: its fields by type, its history, the object that devices see, and what can be done with it.

import { call } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { ago, brief, date } from "../../core/format.js";
import { deviceNames, lookup, modify, PUBLIC, storeCall, storesOf, zoneCall } from "../../core/plane.js";
import { go, link } from "../../core/router.js";
import { recordTypes } from "../../core/schema-text.js";
import { button, card, empty, facts, head, loading, place } from "../../parts/parts.js";
import { confirm, note } from "../../parts/dialogs.js";
import { trail } from "./data.js";
import { editRecord } from "./edit.js";
import { jsonText, valueText, valueView } from "./values.js";

export function showRecord(outlet, at, signal) {
  const content = place();
  replace(outlet, content);
  const load = () =>
    Promise.all([
      lookup(at, at.zone, at.record, signal),
      call("GET", ["schema", at.container, at.environment], { as: "text", signal }),
    ]);
  loading(content, load, ([record, schema]) => view(at, record, recordTypes(schema), signal), signal);
}

function view(at, record, types, signal) {
  const type = types.find((each) => each.name === record.recordType);
  const isCoreData = record.recordType.startsWith("CD_");
  const actions = [
    isCoreData &&
      at.owner !== PUBLIC &&
      h(
        "a",
        { class: "button", href: link("sync", ["explain"], { object: record.recordName, user: at.owner }) },
        "Explain",
      ),
    button("Edit", () => editRecord(at, record, type), { kind: "first" }),
    button("Delete", () => remove(at, record), { kind: "danger" }),
  ].filter(Boolean);
  const object = h("div");
  const stampView = h("div", null, stamp(record, at, new Map()));
  deviceNames(at, signal).then((names) => replace(stampView, stamp(record, at, names)));
  const history = place();
  showHistory(history, at, record, signal);
  if (isCoreData && at.owner !== PUBLIC) showObject(object, at, record, signal);
  return [
    head(record.recordType, record.recordName, { trail: trail(at, 3), actions }),
    h(
      "div",
      { class: "stack" },
      h(
        "div",
        { class: "record" },
        h("div", { class: "stack" }, card("Fields", fieldsView(record, type, at))),
        h("div", { class: "stack" }, card("Stamp", stampView), card("History", history)),
      ),
      h(
        "div",
        { class: "halves" },
        card(
          "As a record",
          h("pre", { class: "text", tabindex: 0, "aria-label": "The record as JSON" }, jsonText(record)),
        ),
        card(
          "As an object",
          isCoreData && at.owner !== PUBLIC
            ? object
            : h("p", { class: "hint" }, "Records of a Core Data model in a private database are objects, too."),
        ),
      ),
    ),
  ];
}

function fieldsView(record, type, at) {
  const types = new Map((type?.fields ?? []).map((each) => [each.name, each]));
  const names = Object.keys(record.fields ?? {});
  if (!names.length) return empty("No fields", "The record has a name and nothing else.");
  return h(
    "dl",
    { class: "record-fields" },
    names.map((name) => {
      const kind = types.get(name);
      return h(
        "div",
        null,
        h(
          "dt",
          null,
          h("b", null, name.replace(/^CD_/, "")),
          h("small", null, kind?.type ?? record.fields[name].type, kind?.isEncrypted ? ", encrypted" : ""),
        ),
        h(
          "dd",
          null,
          valueView(
            { type: kind?.type?.startsWith("LIST<") ? record.fields[name].type : kind?.type, ...record.fields[name] },
            at,
          ),
        ),
      );
    }),
  );
}

const stamp = (record, at, names) =>
  facts([
    ["Change tag", h("code", null, record.recordChangeTag)],
    ["Created", date(record.created?.timestamp)],
    ["Created by", personOf(record.created, names)],
    ["Changed", `${date(record.modified?.timestamp)} (${ago(record.modified?.timestamp)})`],
    ["Changed by", personOf(record.modified, names)],
    record.parent && ["Parent", valueView({ type: "REFERENCE", value: record.parent }, at)],
    record.share && [
      "Shared",
      h("a", { href: link("people", ["shares"], { owner: at.owner, zone: at.zone }) }, record.share.recordName),
    ],
  ]);

const personOf = (mark, names) =>
  mark &&
  h(
    "span",
    null,
    h("code", { title: mark.userRecordName }, brief(mark.userRecordName, 20)),
    mark.deviceID && h("small", { class: "soft" }, ` on ${names.get(mark.deviceID) ?? mark.deviceID}`),
  );

/** Which device set which field, and when; the latest first. */
function showHistory(view, at, record, signal) {
  loading(
    view,
    async () => {
      const [answer, names] = await Promise.all([
        zoneCall("GET", at, at.zone, "audit", { query: { recordName: record.recordName }, signal }),
        deviceNames(at, signal),
      ]);
      return { changes: (answer.changes ?? []).toReversed(), names };
    },
    ({ changes, names }) =>
      changes.length
        ? h(
            "ol",
            { class: "stack history" },
            changes.map((change) => changeView(change, names)),
          )
        : empty("No history", "The workers keep earlier states for a while only (--record-retention)."),
    signal,
  );
}

function changeView(change, names) {
  const device = names.get(change.device) ?? change.device;
  const lines = (change.properties ?? []).flatMap(({ property, old, new: next }) =>
    [old && ["-", `${property}: ${valueText(old)}`], next && ["+", `${property}: ${valueText(next)}`]].filter(Boolean),
  );
  return h(
    "li",
    null,
    h("b", null, change.changeType),
    " ",
    h("span", { class: "soft", title: date(change.timestamp) }, ago(change.timestamp)),
    h(
      "p",
      { class: "small soft" },
      device ? `on ${device}` : "",
      change.author ? ` by ${brief(change.author, 18)}` : "",
    ),
    h(
      "div",
      { class: "diff" },
      lines.map(([sign, text]) => h("div", { "data-sign": sign }, h("span", null, sign), h("span", null, text))),
    ),
  );
}

/** The object as the first device that knows it sees it, with what is saved there and not exported yet. */
function showObject(view, at, record, signal) {
  loading(
    view,
    async () => {
      for (const store of (await storesOf(at, signal)).slice(0, 5)) {
        const found = await storeCall("GET", store, ["objects", record.recordName], { signal }).catch((error) => {
          if (error.status !== 404) throw error;
          return null;
        });
        if (found) return [store, found];
      }
      return null;
    },
    (found) =>
      found
        ? h(
            "div",
            null,
            h("p", { class: "small soft" }, `On ${found[0].device ?? found[0].store}`),
            h("pre", { class: "text", tabindex: 0, "aria-label": "The object as JSON" }, jsonText(found[1])),
          )
        : h("p", { class: "hint" }, "No device of this user has the object."),
    signal,
  );
}

async function remove(at, record) {
  const done = await confirm(
    `Delete ${record.recordName}?`,
    "Every device of everybody who sees the zone deletes it, too. A zone can be restored to a date while its " +
      "past is kept.",
    "Delete the record",
    () => modify(at, at.zone, "delete", { recordName: record.recordName, recordChangeTag: record.recordChangeTag }),
  );
  if (!done) return;
  note("The record is deleted.");
  go("data", [at.container, at.environment, at.owner, at.zone]);
}
