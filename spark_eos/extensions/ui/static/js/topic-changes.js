import {ask} from "./api.js";
import {LOADING, counted, field, h, number, put, sentence, table} from "./dom.js";
import {change, saying} from "./writing.js";

const danger = (text, onclick) => h("button", {type: "button", class: "danger", onclick}, text);
const lines = (label, name, placeholder) => h("label", {for: `f-${name}`}, label, h("textarea", {id: `f-${name}`, name, rows: "2", placeholder, spellcheck: "false"}));

export function topicCreation(context) {
  const said = saying();
  const form = h("form", {class: "bar", onsubmit: (event) => {
    event.preventDefault();
    const {topic, partitions, settings, columns} = Object.fromEntries(new FormData(form));
    change(said, context, {area: "topic-create", fields: {topic, partitions: Number(partitions), settings, columns}, what: `the creation of topic ${topic}`,
      title: "Create this topic?", yes: "Create it", text: `Topic ${topic} is created with ${counted(Number(partitions), "partition")}. Partitions can be added later, and not be taken away.`});
  }}, field("Topic", "topic", {autocomplete: "off", required: true}), field("Partitions", "partitions", {type: "number", min: "1", value: "1"}),
  lines("Settings, one a line", "settings", "retention.ms=86400000"), lines("Columns, one a line; none: key and value", "columns", "id bigint not null"),
  h("button", {type: "submit"}, "Create …"));
  return h("details", {}, h("summary", {}, "Create a topic"), said, form);
}

// Below a topic: made once, so that what is typed stays. `show` takes what the view knows of the topic now.
export function topicChanges(context) {
  const topic = context.name, said = saying();
  let known = null;
  const settings = setting(context, said, {topic}, () => ({topic, id: known.id}));
  if (!context.session.writes) { settings.show = () => null; return settings; }
  const one = producing(context, said, () => known);
  const more = h("form", {class: "bar", onsubmit: (event) => {
    event.preventDefault();
    const partitions = Number(more.elements.more.value);
    change(said, context, {area: "topic-partitions", fields: {topic, id: known.id, partitions}, what: `the new partitions of topic ${topic}`, title: "Add partitions?", yes: "Add them",
      text: `Topic ${topic} has ${counted(known.partitions, "partition")}, and ${partitions} then. Keys go to other partitions from then on; partitions cannot be taken away.`});
  }}, field("Partitions, in all", "more", {type: "number", min: "1", required: true}), h("button", {type: "submit"}, "Add partitions …"));
  const cut = h("form", {class: "bar", onsubmit: (event) => {
    event.preventDefault();
    const partition = Number(cut.elements.of.value), before = Number(cut.elements.before.value);
    change(said, context, {area: "records-delete", fields: {topic, id: known.id, partition, before}, what: `the deletion of records of ${topic}-${partition}`, title: "Delete these records?", yes: "Delete the records", typed: topic,
      text: `All records of ${topic}-${partition} before offset ${number(before)} are deleted for all readers. Nothing brings them back.`});
  }}, field("Of partition", "of", {type: "number", min: "0", value: "0"}), field("Records before offset", "before", {type: "number", min: "0", required: true}), h("button", {type: "submit", class: "danger"}, "Delete records …"));
  const drop = danger("Delete topic …", () => change(said, context, {area: "topic-delete", fields: {topic, id: known.id}, what: `the deletion of topic ${topic}`, title: "Delete this topic?", yes: "Delete the topic", typed: topic,
    text: `Topic ${topic}, all its ${counted(known.offsets, "offset")} and what groups have committed there are deleted.`, done: () => { box.gone = true; put(box, said); }}));
  const box = h("section", {"aria-label": "Changes of this topic"}, h("h2", {}, "Change"), said, one, settings, more, cut, h("p", {class: "row"}, drop));
  box.hidden = true;  // What is sent names the topic by its id.
  box.show = (answer) => { known = answer; one.show(answer); box.hidden = false; };
  return box;
}

// One record. Which fields there are depends on whether the topic has columns.
function producing(context, said, known) {
  const topic = context.name, send = h("button", {type: "submit"}, "Write …");
  const value = lines("Value", "value", "as text; JSON if the topic has a format"), key = field("Key; empty: null", "key", {autocomplete: "off", id: "f-new-key"});
  const headers = lines("Headers, one a line", "headers", "name=value"), none = h("label", {for: "f-null"}, "The value is null", h("input", {type: "checkbox", id: "f-null", name: "null"}));
  key.htmlFor = "f-new-key";
  const form = h("form", {class: "bar", onsubmit: async (event) => {
    event.preventDefault();
    const at = form.elements.partition.value, fields = {topic, id: known().id, key: form.elements.key.value, value: form.elements.value.value, headers: form.elements.headers.value,
      null: form.elements.null.checked, partition: at === "" ? -1 : Number(at)};
    send.disabled = true;
    await change(said, context, {area: "produce", fields, what: `the write of a record to ${topic}`, title: "Write this record?", yes: "Write it",
      text: `One record is written to ${at === "" ? `the partition of ${topic} that its key chooses` : `${topic}-${at}`}. All readers get it; it cannot be changed or taken back.`});
    send.disabled = false;
  }}, key, value, none, headers, field("Partition; empty: by key", "partition", {type: "number", min: "0", id: "f-into"}), send);
  form.elements.partition.closest("label").htmlFor = "f-into";
  const box = h("details", {}, h("summary", {}, "Write a record"), form);
  box.show = (answer) => {
    const typed = answer.columns.length > 0;
    for (const part of [key, none, headers]) part.hidden = typed;
    value.firstChild.textContent = typed ? `Columns as JSON, such as {${answer.columns.map((one) => `"${one.name}": …`).join(", ")}}` : "Value";
  };
  return box;
}

export function logSettings(context) {
  const said = saying();
  return h("section", {"aria-label": "Settings of the log"}, h("h2", {}, "Settings of the log"), said, setting(context, said, {}, () => ({})));
}

// All settings with their defaults and what is allowed, fetched when they are opened; with the right to write, each can be changed.
function setting(context, said, asked, named) {
  const shown = h("div", {});
  async function load() {
    if (!shown.childNodes.length) put(shown, LOADING);
    try { put(shown, table(asked.topic ? `Settings of ${asked.topic}` : "Settings of the log", columns, (await ask("settings", asked)).rows)); }
    catch (error) { put(shown, h("p", {class: "error", role: "alert"}, sentence(error.message))); }
  }
  const columns = [["Setting", (one) => [h("code", {}, one.name), h("div", {class: "soft"}, one.doc.split("`").map((part, at) => at % 2 ? h("code", {}, part) : part))], "", "name"],
    ["Value", (one) => [h("code", {}, one.value || "–"), one.set ? h("div", {class: "soft"}, "was set") : null], "", "value"],
    ["Default", (one) => h("code", {}, one.default || "–"), "", "default"], ["Allowed", (one) => one.allowed || "set by a newer version", "", "allowed"]];
  if (context.session.writes) columns.push(["Change", (one) => one.secret ? "–" : h("form", {class: "row", onsubmit: (event) => {
    event.preventDefault();
    const value = event.target.elements.value.value.trim();
    change(said, context, {area: asked.topic ? "topic-alter" : "log-alter", fields: {...named(), name: one.name, value, before: one.value}, what: `the change of ${one.name}`, title: "Change this setting?", yes: "Change it",
      text: `${one.name} of ${asked.topic ? `topic ${asked.topic}` : "the log"} is ${one.value || "empty"}, and ${value || `its default (${one.default || "none"})`} then.`, done: load});
  }}, h("input", {name: "value", "data-key": `v${one.name}`, "aria-label": `New value of ${one.name}; empty: the default`, autocomplete: "off"}), h("button", {type: "submit", "data-key": `s${one.name}`, "aria-label": `Change ${one.name}`}, "Change …"))]);
  return h("details", {ontoggle: (event) => { if (event.target.open) load(); }}, h("summary", {}, "All settings"), shown);
}
