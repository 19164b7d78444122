import {ask, current} from "./api.js";
import {counted, field, folded, h, inZone, number, put, sentence, table, time, typedTime, zone} from "./dom.js";

const MOST = 200;  // Rows that are shown while new ones come.

// The records of a topic: a form, and what was found. `update` is called when the log has changed.
export function records(context, found) {
  const topic = context.name, kept = context.asked("records", {form: null, place: {}});
  // What was asked, the rows that are shown, and what the server said last; `live`: new ones are added on top.
  let asked = null, rows = [], said = null, live = false, busy = false;
  let drawn = null, last = null;
  const waiting = h("span", {role: "status"});

  function fieldsOf(form) {
    const data = new FormData(form), from = data.get("from"), place = String(data.get("place"));
    const fields = {topic, from, decode: data.get("decode"), isolation: data.get("isolation"),
      search: data.get("search"), key: data.get("key"), filter: data.get("filter"), count: 25};
    if (data.get("partition") !== "") fields.partition = Number(data.get("partition"));
    if (from === "offset") fields.offset = Number(place || 0);
    if (from === "time") fields.time = typedTime(place);
    return fields;
  }

  async function load(fields, place = {}) {
    live = false;
    found.setAttribute("aria-live", "polite");
    waiting.textContent = "Reading …";
    kept.place = place;
    context.keep();
    const mine = last = {};
    try {
      const answer = await ask("records", {...fields, ...place});
      if (mine !== last) return;  // More was asked meanwhile, and that answer may have come before this one.
      said = {...answer, ends: place.before ? null : answer.ends};  // On top of older ones new ones would leave a gap.
      asked = fields;
      rows = said.rows;
      live = Boolean(said.ends);
      draw();
    } catch (error) { if (mine === last) fail(error); }
    if (mine === last) waiting.textContent = "";
  }
  const fail = (error) => put(found, h("p", {class: "error", role: "alert"}, sentence(error.message)));
  function read() {
    kept.form = Object.fromEntries(new FormData(form));
    load(fieldsOf(form));
  }

  // Only what came since is read. If that is more than a page, older ones are not lost: the next page has them.
  async function update() {
    if (asked && zone() !== drawn) draw();
    if (!live || busy || found.contains(getSelection()?.anchorNode) && !getSelection().isCollapsed) return;
    busy = true;
    const was = said;
    try {
      const more = await ask("records", {...asked, after: said.ends});
      if (!live || was !== said) return;
      const looked = more.looked_at === null ? null : said.looked_at + more.looked_at;
      if (!more.done) { said = more; rows = more.rows; }
      else { said = {...said, ends: more.ends}; rows = [...more.rows, ...rows]; }
      said = {...said, looked_at: looked};
      for (const one of rows.splice(MOST)) {  // What is cut off begins the next page.
        const next = new Map(said.next || []);
        next.set(one.partition, Math.max(next.get(one.partition) ?? 0, one.offset + 1));
        said = {...said, next: [...next], done: false};
      }
      if (more.rows.length || looked !== null) { found.setAttribute("aria-live", "off"); draw(); }
    } finally { busy = false; }
  }

  function draw() {
    drawn = zone();
    const newest = asked.from === "end", all = columnsOf(rows), chosen = all.filter((one) => chosenOf(one));
    const place = () => newest ? {before: said.next} : {after: said.next};
    put(found, said.problem ? h("p", {class: "warn"}, said.problem) : null,
      said.damaged.map((one) => h("p", {class: "error"}, one)),
      h("details", {"data-key": "columns"}, h("summary", {"data-key": "columns"}, `Columns: ${chosen.length} of ${all.length}`),
        h("fieldset", {class: "row"}, h("legend", {}, "Columns that are shown"), all.map((one) => h("label", {},
          h("input", {type: "checkbox", checked: chosen.includes(one), "data-key": `c${one.id}`, onchange: (event) => { remember(one, event.target.checked); draw(); }}), ` ${one.name}`)))),
      h("div", {class: "row", role: "group", "aria-label": "Records"},
        newest && said.ends ? h("button", {type: "button", "data-key": "live", onclick: () => { live = !live; draw(); update(); }},
          live ? "Pause" : "Go on live") : null,
        [["csv", "CSV"], ["jsonl", "JSON Lines"], ["parquet", "Parquet"]].map(([format, name]) => h("button", {type: "button", "data-key": format, disabled: !rows.length, onclick: () => save(format, chosen)}, `Save as ${name}`)),
        live ? h("span", {class: "soft"}, "New records appear on top.") : null, problem),
      table(`${counted(rows.length, "record")}, ${newest ? "the newest first" : "the oldest first"}${said.looked_at === null ? "" : `; ${number(said.looked_at)} looked at`}`,
        [...chosen.map((one) => [one.name, (row) => cell(one, row), one.kind, one.id, (row) => sortedBy(row, one.id)]), ["Record", (row) => h("button", {type: "button", "data-key": `r${row.partition}-${row.offset}`,
          "aria-label": `Open the record at offset ${row.offset} of partition ${row.partition}`, onclick: () => show(asked, row)}, "Open")]], rows),
      h("div", {class: "row", role: "group", "aria-label": "More records"},
        said.done ? null : h("button", {type: "button", "data-key": "more", onclick: () => load(asked, place())}, newest ? "Older ones" : "Next ones"),
        newest ? h("button", {type: "button", "data-key": "newest", onclick: () => load(asked)}, "Newest") : null));
  }

  // Which columns a person has chosen, of this topic: in this browser alone.
  const columns = `eoslog-columns ${current.session.logs[current.log].url} ${topic}`;
  const choices = new Map(JSON.parse(localStorage.getItem(columns) || "[]"));
  const chosenOf = (one) => choices.get(one.id) ?? one.shown;
  function remember(one, on) {
    choices.set(one.id, on);
    localStorage.setItem(columns, JSON.stringify([...choices]));
  }

  const problem = h("span", {class: "error", role: "alert"});
  async function save(format, chosen) {
    problem.textContent = "";
    try {
      const file = await ask("export", {topic, format, decode: asked.decode, isolation: asked.isolation,
        columns: chosen.map((one) => one.id), records: rows.map((one) => [one.partition, one.offset])});
      const data = file.text ?? Uint8Array.from(atob(file.base64), (one) => one.charCodeAt(0));
      const url = URL.createObjectURL(new Blob([data], {type: file.text === undefined ? "application/octet-stream" : "text/plain"}));
      h("a", {href: url, download: file.name}).click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
    } catch (error) { problem.textContent = sentence(error.message); }
  }

  const form = h("form", {class: "bar", onsubmit: (event) => { event.preventDefault(); read(); }},
    field("Partition", "partition", {type: "number", min: "0", placeholder: "all"}),
    field("From", "from", {}, [["end", "the newest"], ["start", "the oldest"], ["offset", "offset"], ["time", "time"]]),
    field("Offset or time", "place", {autocomplete: "off", placeholder: "42 or 2026-11-21T16:30"}),
    field("Search", "search", {type: "search", autocomplete: "off"}),
    field("Key is", "key", {autocomplete: "off"}),
    field("Where", "filter", {autocomplete: "off", maxlength: "1000", placeholder: "offset >= 5 AND key = 'a'"}),
    field("Decode", "decode", {}, [["auto", "by the topic"], ["text", "text"], ["json", "JSON"], ["hex", "hexadecimal"], ["base64", "base64"]]),
    field("Read", "isolation", {}, [["committed", "committed"], ["uncommitted", "uncommitted, too"]]),
    h("button", {type: "submit", "data-key": "read"}, "Read"),
    h("button", {type: "button", onclick: async () => {
      try {
        const answer = await ask("key-partition", {topic, key: form.elements.key.value});
        form.elements.partition.value = answer.partition;
        form.elements.from.value = "end";
        read();
      } catch (error) { fail(error); }
    }}, "Go to key"), waiting);
  if (kept.form) {
    for (const [name, value] of Object.entries(kept.form)) form.elements[name].value = value;
    load(fieldsOf(form), kept.place);
  }
  // Another topic has the name now.
  function forget() {
    live = false;
    asked = last = null;
    waiting.textContent = "";
    put(found, h("p", {class: "warn", role: "status"}, "This topic was deleted and created again. Read the records of the new one."));
  }
  return {form, update, forget};
}

// What a record is sorted by: numbers as such, else the text that is shown.
function sortedBy(row, by) {
  const shown = by.startsWith(".") ? row.cells?.[by.slice(1)] : by === "headers" ? {text: row.headers.map((one) => one.text).join()} : row[by];
  const value = shown !== null && typeof shown === "object" ? shown.text : shown, figure = shown?.as === "value" ? Number(value) : NaN;
  return isNaN(figure) || value === null ? value : figure;
}

const FEW = 12;  // Fields that are shown unless others are chosen.

// Numbers are put below each other, by their ends.
const FIGURE = /^(-?(\d[\d.]{0,30}([eE][+-]?\d{1,4})?|Infinity)|NaN)$/;
function isFigures(rows, name) {
  const found = rows.map((row) => row.cells?.[name]).filter((one) => one && one.text !== null);
  return found.length > 0 && found.every((one) => one.as === "value" && FIGURE.test(one.text));
}

// The places of records, then what they have: fields are told from them by a dot.
function columnsOf(rows) {
  const fields = [...new Set(rows.flatMap((row) => Object.keys(row.cells || {})))];
  const typed = rows.every((row) => row.value.as === "columns");
  return [{id: "partition", name: "Partition", kind: "n", shown: true}, {id: "offset", name: "Offset", kind: "n", shown: true},
    {id: "time", name: inZone("Time"), kind: "t", shown: true}, ...(typed ? [] : [{id: "key", name: "Key", shown: true}]),
    ...fields.map((name, at) => ({id: `.${name}`, name: name || "(no name)", kind: isFigures(rows, name) ? "n" : "", shown: at < FEW})),
    ...(typed ? [] : [{id: "value", name: "Value", shown: !fields.length || !rows.every((row) => row.cells)},
      {id: "headers", name: "Headers", shown: rows.some((row) => row.headers.length)}])];
}

function cell(column, row) {
  if (column.id.startsWith(".")) {
    const shown = row.cells?.[column.id.slice(1)];
    return shown ? value(shown, `${row.partition}-${row.offset}${column.id}`, column.name) : "";
  }
  if (column.id === "time") return time(row.time);
  if (column.id === "headers") return row.headers.map((header) => h("div", {}, h("b", {}, header.key), ": ", text(header)));
  const shown = row[column.id];
  return column.kind === "n" ? number(shown) : shown ? value(shown, `${row.partition}-${row.offset}${column.id}`, column.name) : "–";
}

// With the mouse it is copied here, by keyboard in the record.
function value(shown, key, name) {
  return shown.text === null ? text(shown) : [folded(shown.text, key, text(shown)), copying(shown, name, {class: "copy cell", tabindex: "-1"})];
}

function copying(shown, name, attributes) {
  return navigator.clipboard && !shown.cut ? h("button", {type: "button", "aria-label": `Copy ${name}`, ...attributes, onclick: async (event) => {
    const button = event.currentTarget;
    await navigator.clipboard.writeText(shown.text);
    button.textContent = "Copied";
  }}, "Copy") : null;
}

// One record with whole values.
async function show(fields, row) {
  const dialog = document.getElementById("record"), body = document.getElementById("record-body");
  document.getElementById("record-title").textContent = `Offset ${number(row.offset)} of partition ${number(row.partition)}`;
  put(body, h("p", {}, "Loading …"));
  document.getElementById("record-close").onclick = () => dialog.close();
  dialog.showModal();
  try {
    const whole = (await ask("record", {topic: fields.topic, partition: row.partition, offset: row.offset, decode: fields.decode, isolation: fields.isolation})).row;
    put(body, h("dl", {}, columnsOf([whole]).filter((one) => one.id.startsWith(".") || whole[one.id]?.as).map((one) => {
      const shown = one.id.startsWith(".") ? whole.cells[one.id.slice(1)] : whole[one.id];
      return [h("dt", {}, one.name, " ", shown.text === null ? null : copying(shown, one.name, {class: "copy"})), h("dd", {}, text(shown))];
    }), h("dt", {}, inZone("Time")), h("dd", {}, time(whole.time)),
    whole.headers.map((header) => [h("dt", {}, `Header ${header.key}`), h("dd", {}, text(header))])));
  } catch (error) { put(body, h("p", {class: "error", role: "alert"}, error.message)); }
}

function text(shown) {
  if (!shown.text) return h("span", {class: "soft"}, shown.text === null ? "null" : "empty");
  return h("span", {}, h("code", {}, shown.text, shown.cut ? " …" : ""),
    shown.problem ? h("span", {class: "warn"}, ` (${shown.problem})`) : ["text", "value"].includes(shown.as) ? null : h("span", {class: "soft"}, ` ${shown.as}`));
}
