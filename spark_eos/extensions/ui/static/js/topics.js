import {ask} from "./api.js";
import {asking, byServer, counted, field, h, number, pager, put, spark, table, tiles} from "./dom.js";
import {records} from "./records.js";
import {topicChanges, topicCreation} from "./topic-changes.js";

export const address = (kind, name) => `#/${kind}/${encodeURIComponent(name)}`;

export function topics(root, context) {
  const asked = context.asked("topics", {filter: "", sort: "name", first: 0});
  const rows = h("div", {});
  put(root, asking(asked, context.refresh, field("Name has", "filter", {type: "search", autocomplete: "off"})), rows, context.session.writes ? topicCreation(context) : null);
  return {live: true, async update() {
    const answer = await ask("topics", asked);
    put(rows, table(counted(answer.total, "topic"), [
      ["Topic", (one) => h("a", {href: address("topic", one.name), "data-key": `t${one.name}`}, one.name), "", "name"],
      ["Partitions", (one) => number(one.partitions), "n"],
      ["Offsets", (one) => number(one.offsets), "n", "records"],
      ["Held back", (one) => number(one.held), "n", "held"],
      ["Offsets/s", (one) => number(one.rate), "n", "rate"],
      ["Rate", (one) => spark(one.spark, "Offsets per second")],
      ["Values", (one) => one.format],
    ], answer.rows, byServer(asked, context.refresh)), pager(answer, (first) => { asked.first = first; context.refresh(); }));
  }};
}

export function topic(root, context) {
  const asked = context.asked("topic", {topic: context.name, only: "all", sort: "partition", first: 0});
  const head = h("div", {}), parts = h("div", {}), found = h("div", {class: "records", "aria-live": "polite"});
  const form = asking(asked, context.refresh, field("Show", "only", {}, [["all", "all partitions"], ["held", "held back"], ["busy", "written to now"]]));
  const changes = topicChanges(context), reading = records(context, found);
  put(root, head, h("h2", {}, "Records"), reading.form, found, h("h2", {}, "Partitions"), form, parts, changes);
  let id = null;
  return {live: true, async update() {
    if (changes.gone) { put(root, changes); return; }
    const answer = await ask("topic", asked);
    changes.show(answer);
    if (id !== null && id !== answer.id) reading.forget();
    id = answer.id;
    put(head, tiles([["Partitions", number(answer.partitions)], ["Offsets", number(answer.offsets)],
      ["Held back", number(answer.held), answer.held ? "bad" : ""], ["Values", answer.format],
      ["Rate", spark(answer.spark, "Offsets per second")]]),
      answer.problem ? h("p", {class: "error"}, answer.problem) : null,
      h("details", {"data-key": "settings"}, h("summary", {"data-key": "settings"}, "Settings, columns, readers"),
        table("Settings that were set", [["Name", (one) => one.name, "", "name"], ["Value", (one) => h("code", {}, one.value), "", "value"]], answer.settings),
        answer.columns.length ? table("Columns", [["Name", (one) => one.name, "", "name"], ["Type", (one) => one.type, "", "type"], ["Nullable", (one) => String(one.nullable), "", "nullable"]], answer.columns) : null,
        h("p", {}, "Groups: ", answer.readers.map((one) => [h("a", {href: address("group", one)}, one), " "])),
        h("p", {}, `Publications: ${answer.publications.join(", ") || "none"}`)));
    put(parts, table(`Partitions of ${context.name}`, [
      ["Partition", (one) => number(one.partition), "n", "partition"],
      ["Start", (one) => number(one.start), "n", "start"], ["End", (one) => number(one.end), "n", "end"],
      ["Last stable", (one) => number(one.lso), "n"],
      ["Held back", (one) => one.held ? h("a", {href: "#/transactions", class: "bad"}, number(one.held)) : "0", "n", "held"],
      ["Offsets/s", (one) => number(one.rate), "n", "rate"], ["Rate", (one) => spark(one.spark, "Offsets per second")],
    ], answer.page_rows, byServer(asked, context.refresh)), pager(answer, (first) => { asked.first = first; context.refresh(); }, "page_"));
    await reading.update();
  }};
}
