import {ask} from "./api.js";
import {typed} from "./commands.js";
import {asking, byServer, chart, counted, duration, field, folded, h, inZone, number, pager, put, sentence, size, spark, table, tiles, time, words} from "./dom.js";
import {groupChanges, removing} from "./group-changes.js";
import {address} from "./topics.js";

// Where nothing was committed it is not known, and is not 0.
const lagText = ({lag, unknown}) => [lag === null && unknown ? null : number(lag), unknown ? `unknown in ${counted(unknown, "partition")}` : null].filter(Boolean).join(", ");

export function groups(root, context) {
  const asked = context.asked("groups", {filter: "", kind: "all", sort: "lag", first: 0});
  const rows = h("div", {});
  put(root, asking(asked, context.refresh, field("Name has", "filter", {type: "search", autocomplete: "off"}),
    field("Show", "kind", {}, [["all", "groups and queries"], ["group", "groups"], ["query", "queries"]])), rows);
  return {live: true, async update() {
    const answer = await ask("groups", asked);
    put(rows, table(`Groups and queries: ${number(answer.total)}`, [
      ["Name", (one) => h("a", {href: address(one.kind, one.name), "data-key": `${one.kind}${one.name}`}, one.name), "", "name"],
      ["Kind", (one) => one.kind], ["State", (one) => words(one.state)],
      ["Members", (one) => number(one.members), "n"], ["Partitions", (one) => number(one.partitions), "n"],
      [inZone("Last commit"), (one) => time(one.last_ms), "t"],
      ["Lag in offsets", lagText, "n", "lag"], ["Over time", (one) => spark(one.spark, "Lag")],
    ], answer.rows, byServer(asked, context.refresh)), pager(answer, (first) => { asked.first = first; context.refresh(); }));
  }};
}

const detail = (kind) => (root, context) => {
  const asked = context.asked(kind, {[kind]: context.name, sort: "lag", first: 0}), shown = h("div", {});
  const changes = kind === "group" ? groupChanges(context) : null;
  const remove = changes && context.session.writes ? removing(context, changes) : null;
  const batches = kind === "query" ? h("div", {}) : null;
  put(root, shown, batches, changes);
  return {live: true, async update() {
    if (changes?.gone) { put(shown); return; }
    const answer = await ask(kind, asked);
    changes?.show?.();
    put(shown, tiles([["Kind", answer.kind], ["State", words(answer.state)], ["Lag in offsets", number(answer.lag)],
      ...(answer.behind ? [["Behind in time", duration(answer.behind.time_ms)], ["Behind in records", (answer.behind.exact ? "" : "about ") + number(answer.behind.records)],
        ["Behind in bytes", size(answer.behind.bytes)], ...(answer.behind.unknown ? [["Partitions with unknown lag", number(answer.behind.unknown), "warn"]] : [])] : []),
      kind === "group" ? ["Generation", number(answer.generation)] : [inZone("Last seen"), time(answer.last_ms), "time"]]),
    answer.advice.length ? [h("h2", {}, "Cause and cure"), h("ul", {}, answer.advice.map((one, at) => h("li", {}, sentence(one.text), " ",
      (one.commands || []).map((text) => h("div", {}, typed(text))), one.to ? h("a", {href: `#/${one.to}`, "data-key": `c${at}`}, `Show ${one.to}`) : null)))] : null,
    h("h2", {}, "Lag over time"), chart(answer.over_time, "Lag in offsets"),
    answer.members.length ? table(answer.members_total > answer.members.length ? `The first ${number(answer.members.length)} of ${number(answer.members_total)} members` : "Members", [["Member", (one) => folded(one.member, `m ${one.member}`), "", "member"], ["Client", (one) => folded(one.client, `c ${one.member}`), "", "client"],
      ["Partitions", (one) => number(one.partitions), "n", "partitions"], ["State", (one) => one.state, "", "state"],
      ...(remove ? [["Remove", (one) => remove(one)]] : [])], answer.members) : null,
    h("h2", {}, "Partitions"), table("Committed offsets and lag", [
      ["Topic", (one) => h("a", {href: address("topic", one.topic), "data-key": `${one.topic}/${one.partition}`}, one.topic)],
      ["Partition", (one) => number(one.partition), "n", "partition"], ["Committed", (one) => number(one.committed), "n"],
      ["Last stable", (one) => number(one.end), "n"], ["Lag", (one) => number(one.lag), "n", "lag"],
      ["Deleted unread", (one) => number(one.gone), "n"], [inZone("Committed at"), (one) => time(one.committed_ms), "t"],
      ["Reader", (one) => folded(one.holder || "–", `r ${one.topic}/${one.partition}`)],
    ], answer.page_rows, byServer(asked, context.refresh)), pager(answer, (first) => { asked.first = first; context.refresh(); }, "page_"));
    if (batches) put(batches, microBatches(await ask("query-batches", {query: context.name})));
  }};
};

// What the log knows of the micro-batches. What only Spark knows is not here, and is said to be there.
function microBatches({first, last, rows, events}) {
  return [h("h2", {}, "Micro-batches"), rows.length ? table(`Micro-batches in entries ${number(first)} to ${number(last)}, newest first`, [
    ["Batch", (one) => number(one.batch), "n", "batch"], ["Entry", (one) => number(one.entry), "n", "entry"], [inZone("Committed"), (one) => time(one.time), "t", "time"],
    ["After the one before", (one) => duration(one.since_ms), "n", "since_ms"], ["Offsets read", (one) => number(one.read), "n", "read"], ["Rows written", (one) => number(one.rows), "n", "rows"],
    ["From", (one) => one.sources.map((source, at) => h("div", {}, folded(source, `b ${one.entry} ${at}`))), "", "sources", (one) => one.sources.join()], ["Into", (one) => one.into.join(", ") || "–", "", "into", (one) => one.into.join()],
    ["Outcome", (one) => one.refused ? h("span", {class: "bad"}, `refused: ${one.refused}`) : "committed", "", "outcome", (one) => one.refused || "committed"]], rows)
    : h("p", {}, `None in entries ${number(first)} to ${number(last)}.`),
  events.length ? table("What happened to it", [[inZone("Time"), (one) => time(one.time), "t", "time"], ["What", (one) => one.what, "", "what"], ["By", (one) => one.writer || "–", "", "writer"], ["More", (one) => one.text || "–", "", "text"]], events) : null,
  h("p", {class: "soft"}, "A dash is what the log does not know. How long a micro-batch took, the rates of sources that are not of this log, what the query has read and not committed, and the error with which it ended are in Spark: query.lastProgress, query.exception(), and Structured Streaming in its web UI.")];
}
export const group = detail("group"), query = detail("query");
