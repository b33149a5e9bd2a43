// Core Data models: drop one to have it checked, see every problem with its place, and push it.

import { call, get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { date } from "../../core/format.js";
import { badge, card, check, empty, field, input, loading, place, table } from "../../parts/parts.js";
import { note } from "../../parts/dialogs.js";
import { changePreview } from "./preview.js";

export function showModels(content, at, _query, signal) {
  const list = place();
  const preview = h("div", { "aria-live": "polite" });
  const configuration = input({ placeholder: "All entities" });
  const hides = check("Also change the types of fields that records have", false);
  const said = h("p", { role: "status" }, "Drop a .xcdatamodeld, or its contents file");
  const choose = h("input", { type: "file", class: "unseen", "aria-label": "Choose a model's contents file" });
  const folder = h("input", {
    type: "file",
    class: "unseen",
    webkitdirectory: true,
    "aria-label": "Choose a .xcdatamodeld folder",
  });
  const well = h(
    "div",
    { class: "well" },
    said,
    h(
      "div",
      { class: "row" },
      h("label", { class: "button" }, "Choose a folder", folder),
      h("label", { class: "button" }, "Choose a file", choose),
    ),
  );
  const fill = () =>
    loading(list, () => get(["models", at.container, at.environment], undefined, { signal }), modelTable, signal);

  async function take(files) {
    const found = await current(files);
    if (!found) {
      replace(said, "There is no file named contents in it. Drop a .xcdatamodeld, a .xcdatamodel or a contents file.");
      return;
    }
    replace(said, h("b", null, found.name));
    const body = await found.file.arrayBuffer();
    const wanted = { configuration: configuration.value.trim(), changeTypes: hides.box.checked || undefined };
    const send = (isTrial) =>
      call("PUT", ["models", at.container, at.environment], {
        text: body,
        signal,
        query: { dryRun: isTrial || undefined, ...wanted },
      });
    await changePreview(
      preview,
      () => send(true),
      async () => {
        await send(false);
        note("The model is pushed.");
        replace(preview);
        await fill();
      },
      `Push to ${at.environment}`,
    );
  }

  // What was checked is what is pushed: another choice needs another check.
  for (const control of [configuration, hides.box]) {
    control.addEventListener("input", () => {
      if (preview.firstChild) replace(preview, h("p", { class: "hint" }, "Choose the model again to have it checked."));
    });
  }
  choose.addEventListener("change", () => take([...choose.files].map(plainFile)));
  folder.addEventListener("change", () => take([...folder.files].map(plainFile)));
  for (const type of ["dragover", "dragenter"]) {
    well.addEventListener(type, (event) => {
      event.preventDefault();
      well.dataset.over = "true";
    });
  }
  well.addEventListener("dragleave", () => well.setAttribute("data-over", "false"));
  well.addEventListener("drop", async (event) => {
    event.preventDefault();
    well.dataset.over = "false";
    take(await dropped(event.dataTransfer));
  });
  replace(
    content,
    h(
      "div",
      { class: "stack" },
      card(
        "Check and push a model",
        h(
          "div",
          { class: "stack" },
          well,
          h("div", { class: "fields" }, field("Configuration", configuration)),
          hides.view,
          preview,
        ),
      ),
      h("section", { class: "card bare" }, h("header", null, h("h2", null, "Models of this environment")), list),
    ),
  );
  fill();
}

function modelTable({ models = [] }) {
  if (!models.length) return empty("No model yet", "Devices set up their stores with a model that is here.");
  return table(
    "Models",
    [
      [
        "Model",
        (row) =>
          h(
            "span",
            null,
            h("code", { class: "cut", title: row.hash }, row.hash),
            row.latest && badge("latest", "good"),
          ),
      ],
      ["Pushed", (row) => date(row.pushed), { class: "nowrap" }],
      [
        "Entities",
        (row) =>
          Array.isArray(row.entities)
            ? row.entities.map((each) => each.name ?? each).join(", ")
            : String(row.entities ?? ""),
      ],
    ],
    models,
  );
}

const plainFile = (file) => ({ name: file.webkitRelativePath || file.name, file });

/** The files of what was dropped, folders included. */
async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map(plainFile);
  const files = [];
  const walk = async (entry) => {
    if (entry.isFile) {
      files.push({ name: entry.fullPath, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) });
    } else {
      const reader = entry.createReader();
      for (;;) {
        const part = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
        if (!part.length) return;
        for (const each of part) await walk(each);
      }
    }
  };
  for (const entry of entries) await walk(entry);
  return files;
}

/** The contents of the current version: the one that `.xccurrentversion` names, or the last by name. */
async function current(files) {
  const contents = files
    .filter(({ name }) => /(^|\/)contents$|\.xml$/.test(name))
    .sort((one, other) => one.name.localeCompare(other.name, "en", { numeric: true }));
  const mark = files.find(({ name }) => name.endsWith(".xccurrentversion"));
  const named = mark && /<string>([^<]+\.xcdatamodel)<\/string>/.exec(await mark.file.text())?.[1];
  return contents.find(({ name }) => named && name.includes(`/${named}/`)) ?? contents.at(-1);
}
