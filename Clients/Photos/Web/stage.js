// The stage: three telephones side by side. An invitation that one shows reaches the others, as a message would.

const main = document.querySelector("#phones");
const { phones } = await (await fetch("stage.json")).json();
const frames = phones.map((address) => {
  const frame = document.createElement("iframe");
  frame.src = `${address}/phone.html`;
  frame.title = "A telephone";
  main.append(frame);
  return frame;
});

addEventListener("message", ({ data, source, origin }) => {
  if (!phones.includes(origin) || typeof data?.invitation !== "string") return;
  for (const [place, frame] of frames.entries()) {
    if (frame.contentWindow !== source) frame.contentWindow.postMessage({ invitation: data.invitation }, phones[place]);
  }
});
