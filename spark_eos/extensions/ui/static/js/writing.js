import {ask, current} from "./api.js";
import {h, put, sentence} from "./dom.js";

// Errors after which it is not known whether a change was done.
export const UNKNOWN = new Set(["NO_REPLY", "COMMIT_OUTCOME_UNKNOWN", "INTERNAL"]);

// Asks in words what will happen. With `typed`, its name has to be typed before the answer can be yes.
export function confirmed({title, text, yes, no = "Change nothing", typed = null}) {
  const [dialog, heading, words, box, input, doIt, keep] = ["", "-title", "-text", "-name", "-typed", "-yes", "-no"].map((part) => document.getElementById(`confirm${part}`));
  heading.textContent = title;
  put(words, text);
  doIt.textContent = yes;
  keep.textContent = no;
  box.hidden = typed === null;
  input.value = "";
  const judge = () => { doIt.disabled = typed !== null && input.value !== typed; };
  input.oninput = judge;
  judge();
  return new Promise((resolve) => {
    let answer = false;
    doIt.onclick = () => { answer = true; dialog.close(); };
    keep.onclick = () => dialog.close();
    input.onkeydown = (event) => { if (event.key === "Enter" && !doIt.disabled) doIt.click(); };
    // The browser tells of an end a little later: that of the question before would answer this one.
    dialog.onclose = () => { if (!dialog.open) resolve(answer); };
    dialog.showModal();
    (typed === null ? keep : input).focus();
  });
}

// Where a view says what became of its changes.
export const saying = () => h("p", {role: "status", "aria-live": "polite", tabindex: "-1"});

const newId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");

// One change: asked for, sent once, and told of in `said`. `one`: area, fields, what ("the reset of …"), and what `confirmed` takes.
export async function change(said, context, one) {
  const opener = document.activeElement, sure = await confirmed(one);
  (opener?.isConnected && !opener.disabled ? opener : said).focus();
  if (!sure) return;
  if (current.seq === null) { put(said, h("span", {class: "error"}, "This page has not heard of the log yet: try again in a moment.")); return; }
  // The id makes it one request, however often it is sent. It is in no entry up to the newest one that is known here.
  await send(said, context, one, {...one.fields, typed: one.typed ?? "", attempt: newId(), since: current.seq});
}

async function send(said, context, one, fields) {
  put(said, `In progress: ${one.what} …`);
  try {
    const answer = await ask(one.area, fields);
    put(said, h("span", {class: "good"}, sentence(answer.text)));
    one.done?.(answer);
  } catch (error) {
    if (UNKNOWN.has(error.code)) unknown(said, context, one, fields, error.message);
    else put(said, h("span", {class: "error"}, sentence(error.message)));
  }
  said.focus();
  context.refresh();
}

// The reply was lost, or the store did not answer.
function unknown(said, context, one, fields, why) {
  put(said, h("strong", {}, `The outcome of ${one.what} is not known. `), sentence(why), " ",
    h("button", {type: "button", "data-key": "look", onclick: async () => {
      try {
        const found = await ask("change-outcome", {attempt: fields.attempt, since: fields.since});
        if (found.outcome === "open") unknown(said, context, one, fields, found.text);
        else put(said, sentence(found.text));
      } catch (error) { unknown(said, context, one, fields, error.message); }
      context.refresh();
    }}, "Look what became of it"), " ",
    h("button", {type: "button", "data-key": "again", onclick: () => send(said, context, one, fields)}, "Do the same again"));
}
