// A telephone: shows what its process says, and tells the process what a person does.

const $ = (name) => document.getElementById(name);
let state = null;
let selected = null;
let invitation = null;

async function act(path, body = {}) {
  const answer = await fetch(path, { method: "POST", body: JSON.stringify(body) });
  const result = await answer.json();
  say(answer.ok ? "" : result.reason);
  return answer.ok ? result : null;
}

function say(text) {
  $("note").textContent = text;
  $("note").hidden = !text;
}

// MARK: What the process says

function listen() {
  const source = new EventSource("state");
  source.onmessage = ({ data }) => {
    $("dead").hidden = true;
    const told = JSON.parse(data);
    // Before the stores were read there is nothing to show.
    if (!told.device) return;
    state = told;
    show();
  };
  // The browser asks again by itself until the process is back.
  source.onerror = () => { $("dead").hidden = false; };
}

function show() {
  document.title = state.device;
  $("device").textContent = state.device;
  $("signal").textContent = state.isAirplane ? "✈" : state.idle === "offline" ? "○○○" : "●●●";
  $("airplane").ariaPressed = state.isAirplane;
  $("pin").ariaPressed = state.isPinned;
  $("pending").textContent = state.pending === 0 ? "nothing" : `${state.pending} save${state.pending > 1 ? "s" : ""}`;
  $("generation").textContent = state.isPinned ? `${state.generationAge} behind` : "newest";
  $("idle").textContent = state.idle.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  showGrid();
  $("events").replaceChildren(...state.events.map((event) => {
    const item = element("li", event.succeeded ? "" : "failed");
    item.append(element("b", "", event.kind), element("span", "", event.text), element("time", "", event.time));
    return item;
  }));
  if (selected && !state.photos.some((photo) => photo.id === selected)) close();
  if (selected) showSheet();
}

function showGrid() {
  const known = new Map([...$("grid").children].map((item) => [item.dataset.id, item]));
  $("grid").replaceChildren(...state.photos.map((photo) => {
    const item = known.get(photo.id) ?? newItem(photo);
    item.classList.toggle("waiting", photo.isPending);
    const [shared, text] = [item.querySelector(".shared"), item.querySelector(".text")];
    shared.hidden = !photo.isShared;
    text.replaceChildren(
      element("b", "", photo.caption || "Untitled"),
      element("span", "", [photo.stars ? "★".repeat(photo.stars) : "", ...photo.tags].filter(Boolean).join(" · ")));
    return item;
  }));
}

function newItem(photo) {
  const item = element("li");
  item.dataset.id = photo.id;
  const picture = element("img");
  picture.src = `picture/${photo.id}`;
  picture.alt = "";
  item.append(picture, element("i", "shared", "shared"), element("div", "text"));
  item.onclick = () => open(photo.id);
  return item;
}

function element(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

// MARK: One photo

const photo = () => state.photos.find(({ id }) => id === selected);

function open(id) {
  selected = id;
  $("caption").value = photo().caption;
  $("tag").value = "";
  $("sheet-picture").src = `picture/${id}`;
  $("sheet").hidden = false;
  showSheet();
}

function close() {
  selected = null;
  $("sheet").hidden = true;
}

function showSheet() {
  const { stars, tags, isShared, isMine } = photo();
  $("stars").replaceChildren(...[1, 2, 3, 4, 5].map((count) => {
    const star = element("button", count <= stars ? "lit" : "", "★");
    star.type = "button";
    star.title = `${count} of 5`;
    star.onclick = () => act("rate", { id: selected, stars: count });
    return star;
  }));
  $("tags").replaceChildren(...tags.map((name) => {
    const chip = element("button", "chip", `${name} ×`);
    chip.type = "button";
    chip.onclick = () => act("untag", { id: selected, tag: name });
    return chip;
  }));
  $("share").hidden = isShared || !isMine;
  $("revoke").hidden = !isShared || !isMine;
}

$("sheet").onsubmit = async (event) => {
  event.preventDefault();
  const [id, caption, tag] = [selected, $("caption").value.trim(), $("tag").value.trim()];
  if (caption !== photo().caption && !await act("caption", { id, caption })) return;
  if (tag && !await act("tag", { id, tag })) return;
  close();
};
$("share").onclick = async () => {
  const shared = await act("share", { id: selected });
  if (shared) parent.postMessage({ invitation: shared.url }, "*");
};
$("revoke").onclick = () => act("revoke", { id: selected });
$("delete").onclick = () => act("delete", { id: selected });

// MARK: The telephone

$("add").onclick = () => act("add");
$("airplane").onclick = () => act("airplane", { on: !state.isAirplane });
$("pin").onclick = () => act("pin", { on: !state.isPinned });
$("kill").onclick = () => act("kill").catch(() => {});
$("accept").onclick = async () => {
  if (await act("accept", { url: invitation })) $("invitation").hidden = true;
};
addEventListener("message", ({ data }) => {
  if (state?.isGuest && typeof data?.invitation === "string") {
    invitation = data.invitation;
    $("invitation").hidden = false;
  }
});
const tick = () => { $("clock").textContent = new Date().toTimeString().slice(0, 5); };
tick();
setInterval(tick, 5000);
listen();
