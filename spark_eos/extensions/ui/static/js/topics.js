import {ask} from "./api.js";
import {topicChanges, topicCreation} from "./topic-changes.js";
import {field, h, number, pager, put, spark, table, tiles, time} from "./dom.js";

export const address = (kind, name) => `#/${kind}/${encodeURIComponent(name)}`;

export function topics(root, context) {
  const asked = {filter: "", sort: "name", first: 0};
  const rows = h("div", {});
  const form = h("form", {class: "bar", role: "search", onsubmit: (event) => event.preventDefault(), oninput: (event) => {
    asked[event.target.name] = event.target.value; asked.first = 0; context.refresh();
  }}, field("Name has", "filter", {type: "search", autocomplete: "off"}),
  field("Sort by", "sort", {}, [["name", "name"], ["records", "size"], ["rate", "rate"], ["held", "held back"]]));
  put(root, form, rows, context.session.writes ? topicCreation(context) : null);
  return {live: true, async update() {
    const answer = await ask("topics", asked);
    put(rows, table(`${number(answer.total)} topics`, [
      ["Topic", (one) => h("a", {href: address("topic", one.name), "data-key": `t${one.name}`}, one.name)],
      ["Partitions", (one) => number(one.partitions), "n"],
      ["Offsets", (one) => number(one.offsets), "n"],
      ["Held back", (one) => number(one.held), "n"],
      ["Offsets/s", (one) => number(one.rate), "n"],
      ["Rate", (one) => spark(one.spark, "Offsets per second")],
      ["Values", (one) => one.format],
    ], answer.rows), pager(answer, (first) => { asked.first = first; context.refresh(); }));
  }};
}

export function topic(root, context) {
  const asked = {topic: context.name, only: "all", sort: "partition", first: 0};
  const head = h("div", {}), parts = h("div", {}), found = h("div", {"aria-live": "polite"});
  const form = h("form", {class: "bar", oninput: (event) => {
    asked[event.target.name] = event.target.value; asked.first = 0; context.refresh();
  }}, field("Show", "only", {}, [["all", "all partitions"], ["held", "held back"], ["busy", "written to now"]]),
  field("Sort by", "sort", {}, [["partition", "number"], ["offsets", "size"], ["rate", "rate"], ["held", "held back"]]));
  const changes = topicChanges(context);
  put(root, head, h("h2", {}, "Records"), reading(context, found), found, h("h2", {}, "Partitions"), form, parts, changes);
  return {live: true, async update() {
    if (changes.gone) { put(root, changes); return; }
    const answer = await ask("topic", asked);
    changes.show(answer);
    put(head, tiles([["Partitions", number(answer.partitions)], ["Offsets", number(answer.offsets)],
      ["Held back", number(answer.held), answer.held ? "bad" : ""], ["Values", answer.format],
      ["Rate", spark(answer.spark, "Offsets per second")]]),
      answer.problem ? h("p", {class: "error"}, answer.problem) : null,
      h("details", {"data-key": "settings"}, h("summary", {"data-key": "settings"}, "Settings, columns, readers"),
        table("Settings that were set", [["Name", (one) => one.name], ["Value", (one) => h("code", {}, one.value)]], answer.settings),
        answer.columns.length ? table("Columns", [["Name", (one) => one.name], ["Type", (one) => one.type], ["Nullable", (one) => String(one.nullable)]], answer.columns) : null,
        h("p", {}, "Groups: ", answer.readers.map((one) => [h("a", {href: address("group", one)}, one), " "])),
        h("p", {}, `Publications: ${answer.publications.join(", ") || "none"}`)));
    put(parts, table(`Partitions of ${context.name}`, [
      ["Partition", (one) => number(one.partition), "n"],
      ["Start", (one) => number(one.start), "n"], ["End", (one) => number(one.end), "n"],
      ["Last stable", (one) => number(one.lso), "n"],
      ["Held back", (one) => one.held ? h("a", {href: "#/transactions", class: "bad"}, number(one.held)) : "0", "n"],
      ["Offsets/s", (one) => number(one.rate), "n"], ["Rate", (one) => spark(one.spark, "Offsets per second")],
    ], answer.page_rows), pager(answer, (first) => { asked.first = first; context.refresh(); }, "page_"));
  }};
}

function reading(context, found) {
  let last = null;
  const asked = (form) => {
    const data = new FormData(form), from = data.get("from"), place = String(data.get("place"));
    const fields = {topic: context.name, partition: Number(data.get("partition") || 0), from, decode: data.get("decode"),
      isolation: data.get("isolation"), search: data.get("search"), key: data.get("key"), count: 25};
    if (from === "offset") fields.offset = Number(place || 0);
    if (from === "time") fields.time = place;
    fields.back = from === "end" && Boolean(fields.search || fields.key);
    return fields;
  };
  async function load(fields) {
    try {
      const answer = await ask("records", fields);
      last = fields;
      put(found, answer.problem ? h("p", {class: "warn"}, answer.problem) : null,
      answer.damaged.map((one) => h("p", {class: "error"}, one)), table(
        `${number(answer.rows.length)} records of partition ${answer.partition}, which has offsets ${number(answer.start)} to ${number(answer.end)}; ${answer.searched} batches read`, [
          ["Offset", (one) => number(one.offset), "n"], ["Time (UTC)", (one) => time(one.time)],
          ["Key", (one) => one.key ? text(one.key) : "–"], ["Value", (one) => [text(one.value), one.value.cut ? whole(fields, one.offset) : null]],
          ["Headers", (one) => one.headers.map((header) => h("div", {}, h("b", {}, header.key), ": ", text(header)))],
        ], answer.rows), answer.done ? null : h("button", {type: "button", "data-key": "more", onclick: () =>
        load({...last, from: "offset", offset: answer.next})}, fields.back ? "Older ones" : "Next ones"));
    } catch (error) { put(found, h("p", {class: "error", role: "alert"}, error.message)); }
  }
  const form = h("form", {class: "bar", onsubmit: (event) => { event.preventDefault(); load(asked(form)); }},
    field("Partition", "partition", {type: "number", min: "0", value: "0"}),
    field("From", "from", {}, [["end", "the newest"], ["start", "the oldest"], ["offset", "offset"], ["time", "time"]]),
    field("Offset or time", "place", {autocomplete: "off", placeholder: "42 or 2026-11-21T16:30"}),
    field("Search", "search", {type: "search", autocomplete: "off"}),
    field("Key is", "key", {autocomplete: "off"}),
    field("Decode", "decode", {}, [["auto", "by the topic"], ["text", "text"], ["json", "JSON"], ["hex", "hexadecimal"], ["base64", "base64"]]),
    field("Read", "isolation", {}, [["committed", "committed"], ["uncommitted", "uncommitted, too"]]),
    h("button", {type: "submit", "data-key": "read"}, "Read"),
    h("button", {type: "button", onclick: async () => {
      try {
        const answer = await ask("key-partition", {topic: context.name, key: form.elements.key.value});
        form.elements.partition.value = answer.partition;
        form.elements.from.value = "end";
        load(asked(form));
      } catch (error) { put(found, h("p", {class: "error", role: "alert"}, error.message)); }
    }}, "Go to key"));
  return form;
}

function whole(fields, offset) {
  const box = h("div", {});
  box.append(h("button", {type: "button", onclick: async () => {
    try {
      const answer = await ask("record", {topic: fields.topic, partition: fields.partition, offset, decode: fields.decode, isolation: fields.isolation});
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
