import {ask} from "./api.js";
import {counted, field, h, number, put, table, time} from "./dom.js";

const MOST = 200;  // Rows that are shown while new ones come.

// The records of a topic: a form, and what was found. `update` is called when the log has changed.
export function records(topic, found) {
  // What was asked, the rows that are shown, and what the server said last; `live`: new ones are added on top.
  let asked = null, rows = [], said = null, live = false, busy = false;

  function fieldsOf(form) {
    const data = new FormData(form), from = data.get("from"), place = String(data.get("place"));
    const fields = {topic, from, decode: data.get("decode"), isolation: data.get("isolation"),
      search: data.get("search"), key: data.get("key"), count: 25};
    if (data.get("partition") !== "") fields.partition = Number(data.get("partition"));
    if (from === "offset") fields.offset = Number(place || 0);
    if (from === "time") fields.time = place;
    return fields;
  }

  async function load(fields, place = {}) {
    live = false;
    found.setAttribute("aria-live", "polite");
    try {
      said = await ask("records", {...fields, ...place});
      asked = fields;
      rows = said.rows;
      live = Boolean(said.ends) && !place.before;
      draw();
    } catch (error) { put(found, h("p", {class: "error", role: "alert"}, error.message)); }
  }

  // Only what came since is read. If that is more than a page, older ones are not lost: the next page has them.
  async function update() {
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
    const newest = Boolean(asked.from === "end");
    const place = () => newest ? {before: said.next} : {from: "offset", offset: said.next};
    put(found, said.problem ? h("p", {class: "warn"}, said.problem) : null,
      said.damaged.map((one) => h("p", {class: "error"}, one)),
      table(`${counted(rows.length, "record")}, ${newest ? "the newest first" : "the oldest first"}${said.looked_at === null ? "" : `; ${number(said.looked_at)} looked at`}`, [
        ["Partition", (one) => number(one.partition), "n"], ["Offset", (one) => number(one.offset), "n"], ["Time (UTC)", (one) => time(one.time)],
        ["Key", (one) => one.key ? text(one.key) : "–"], ["Value", (one) => [text(one.value), one.value.cut ? whole(asked, one) : null]],
        ["Headers", (one) => one.headers.map((header) => h("div", {}, h("b", {}, header.key), ": ", text(header)))],
      ], rows),
      h("div", {class: "row", role: "group", "aria-label": "Records"},
        newest && said.ends ? h("button", {type: "button", "data-key": "live", "aria-pressed": String(live), onclick: () => { live = !live; draw(); update(); }},
          live ? "Pause" : "Go on live") : null,
        said.done ? null : h("button", {type: "button", "data-key": "more", onclick: () => load(asked, place())}, newest ? "Older ones" : "Next ones"),
        newest ? h("button", {type: "button", "data-key": "newest", onclick: () => load(asked)}, "Newest") : null,
        live ? h("span", {class: "soft"}, "New records appear on top.") : null));
  }

  const form = h("form", {class: "bar", onsubmit: (event) => { event.preventDefault(); load(fieldsOf(form)); }},
    field("Partition", "partition", {type: "number", min: "0", placeholder: "all"}),
    field("From", "from", {}, [["end", "the newest"], ["start", "the oldest"], ["offset", "offset"], ["time", "time"]]),
    field("Offset or time", "place", {autocomplete: "off", placeholder: "42 or 2026-11-21T16:30"}),
    field("Search", "search", {type: "search", autocomplete: "off"}),
    field("Key is", "key", {autocomplete: "off"}),
    field("Decode", "decode", {}, [["auto", "by the topic"], ["text", "text"], ["json", "JSON"], ["hex", "hexadecimal"], ["base64", "base64"]]),
    field("Read", "isolation", {}, [["committed", "committed"], ["uncommitted", "uncommitted, too"]]),
    h("button", {type: "submit", "data-key": "read"}, "Read"),
    h("button", {type: "button", onclick: async () => {
      try {
        const answer = await ask("key-partition", {topic, key: form.elements.key.value});
        form.elements.partition.value = answer.partition;
        form.elements.from.value = "end";
        load(fieldsOf(form));
      } catch (error) { put(found, h("p", {class: "error", role: "alert"}, error.message)); }
    }}, "Go to key"));
  return {form, update};
}

function whole(fields, one) {
  const box = h("div", {});
  box.append(h("button", {type: "button", onclick: async () => {
    try {
      const answer = await ask("record", {topic: fields.topic, partition: one.partition, offset: one.offset, decode: fields.decode, isolation: fields.isolation});
      put(box, h("details", {open: true}, h("summary", {}, "Whole value"), text(answer.row.value)));
    } catch (error) { put(box, h("p", {class: "error"}, error.message)); }
  }}, "Whole value"));
  return box;
}

function text(shown) {
  if (shown.text === null) return h("span", {class: "soft"}, "null");
  return h("span", {}, h("code", {}, shown.text, shown.cut ? " …" : ""),
    shown.problem ? h("span", {class: "warn"}, ` (${shown.problem})`) : h("span", {class: "soft"}, ` ${shown.as}`));
}
