import {ask} from "./api.js";
import {LOG, command, typed} from "./commands.js";
import {LOADING, asking, axes, bars, byServer, chart, counted, duration, field, h, inZone, moment, number, pager, put, sentence, size, table, tiles, time, typedTime, words} from "./dom.js";
import {address} from "./topics.js";
import {logSettings} from "./topic-changes.js";
import {UNKNOWN, confirmed} from "./writing.js";

export function overview(root) {
  return {live: true, async update() {
    const one = await ask("overview");
    const unread = one.error && h("p", {}, "The log cannot be read now, for the reason above: what has become of it since is not known. ", h("a", {"data-key": "unread", href: "#/health"}, "Show health"));
    put(root, h("h2", {}, "Needs attention"), unread, one.attention.length
      ? h("ul", {class: "attention"}, one.attention.map((found, at) => h("li", {class: found.level}, sentence(found.text), " ",
          h("a", {"data-key": `a${at}`, href: found.name ? address(found.to, found.name) : `#/${found.to}`}, `Show ${found.to}${found.name ? ` ${found.name}` : ""}`))))
      : unread ? null : h("p", {class: "good"}, "Nothing was found."),
    one.unverified ? h("p", {class: "soft"}, "Not looked at: whether a file is damaged or missing. ", h("a", {"data-key": "unverified", href: "#/health"}, "Show health")) : null,
    h("h2", {}, "The log"), tiles([["Newest entry", number(one.seq)], ["Topics", number(one.topics)], ["Partitions", number(one.partitions)],
      ["Offsets", number(one.offsets)], ["Offsets/s", number(one.rate)], ["Open transactions", number(one.open)],
      ["Oldest open", duration(one.oldest_ms)], ["Held back", number(one.held), one.held ? "warn" : ""],
      ["Groups", number(one.groups)], ["Largest group lag", number(one.lag)], ...(one.unknown ? [["Groups with unknown lag", number(one.unknown), "warn"]] : []), ["Queries", number(one.queries)],
      ["Largest query lag", number(one.query_lag)], ["Publications", number(one.publications)]]),
    h("h2", {}, "Offsets per second"), chart(one.rates, "Offsets per second"),
    h("p", {class: "soft"}, `Time of the newest entry: ${moment(one.time)}; log ${one.log_id}`));
  }};
}

export function transactions(root, context) {
  const asked = context.asked("transactions", {sort: "", first: 0});
  const said = h("p", {role: "status", "aria-live": "polite", tabindex: "-1"}), rows = h("div", {}), others = h("div", {});
  put(root, said, rows, others);
  const updateProducers = producing(others, context);
  // The reply was lost, or the store did not answer: the abort may be in the log, or arrive there yet.
  function unknown(same, error) {
    put(said, h("strong", {}, `Whether transaction ${same.number} of ${same.id} was aborted is not known. `), sentence(error.message), " ",
      h("button", {type: "button", "data-key": "look", onclick: () => look(same)}, "Look what became of it"));
  }
  async function look(same) {
    try {
      const found = await ask("abort-outcome", same);
      if (found.outcome === "open") unknown(same, {message: found.text});
      else { put(said, sentence(found.text)); said.focus(); }
    } catch (error) { unknown(same, error); }
    context.refresh();
  }
  async function abort(one) {
    const sure = await confirmed({title: "Abort this transaction?", no: "Keep it open", yes: "Abort it",
      text: `Transaction ${one.number} of ${one.id} (producer ${one.producer}, epoch ${one.epoch}) has been open for ${duration(one.age_ms)}. ` +
        "Its records are never read by committed readers, and its producer is fenced."});
    // The rows were made again while the dialog was open.
    ([...rows.querySelectorAll("button")].find((button) => button.dataset.key === `x${one.producer}`) || said).focus();
    if (!sure) return;
    const same = {id: one.id, producer: one.producer, epoch: one.epoch, number: one.number};
    put(said, `Transaction ${same.number} of ${same.id} is being aborted …`);
    try { put(said, sentence((await ask("abort", same)).text)); }
    catch (error) { UNKNOWN.has(error.code) ? unknown(same, error) : put(said, sentence(error.message)); }
    context.refresh();
  }
  return {live: true, async update() {
    const answer = await ask("transactions", asked);
    const columns = [
      ["Transactional id", (one) => [one.id, one.overdue ? h("span", {class: "badge bad"}, "past its timeout") : null], "", "id"],
      ["Open for", (one) => duration(one.age_ms), "n", "age_ms"], ["Timeout", (one) => duration(one.timeout_ms), "n", "timeout_ms"],
      [inZone("Began"), (one) => time(one.started_ms), "t", "started_ms"], ["Held back", (one) => number(one.held), "n", "held"],
      ["Producer", (one) => `${one.producer}, epoch ${one.epoch}, transaction ${one.number}`],
      ["Where", (one) => h("details", {"data-key": `w${one.producer}`}, h("summary", {"data-key": `w${one.producer}`}, counted(one.partitions, "partition")),
        one.places.map((at) => h("div", {}, `${at.topic}-${at.partition} from offset ${number(at.first)}, holds back ${number(at.held)}`)),
        one.groups.length ? h("div", {}, `Offsets of groups wait: ${one.groups.join(", ")}`) : null)],
    ];
    if (context.session.writes) columns.push(["Abort", (one) => h("button", {type: "button", class: "danger", "data-key": `x${one.producer}`,
      "aria-label": `Abort the transaction of ${one.id}`, onclick: () => abort(one)}, "Abort …")]);
    put(rows, answer.total ? table(`Open transactions${asked.sort ? "" : ", the longest open first"}`, columns, answer.rows, byServer(asked, context.refresh)) : h("p", {class: "good"}, "No transaction is open."),
      pager(answer, (first) => { asked.first = first; context.refresh(); }),
      context.session.writes ? null : h("p", {class: "soft"}, "This page only reads. To abort one: ", ...command("transactions", "abort", LOG, "--transactional-id", answer.total === 1 ? answer.rows[0].id : "ID"), ", or start the page with --allow-writes."));
    await updateProducers();
  }};
}

// All producers with a transactional id, below the open transactions, with what has fenced earlier ones.
function producing(root, context) {
  const asked = context.asked("producers", {filter: context.name || "", sort: "last", first: 0});
  const rows = h("div", {});
  put(root, h("h2", {}, "Producers"), asking(asked, context.refresh, field("Transactional id has", "filter", {type: "search", autocomplete: "off"})), rows);
  const fenced = (one) => one.epoch === 0 ? "none" : one.fencings.length ? one.fencings.map((at) => h("div", {}, `${at.what} by `, writer(at), ` ${happened(at)}: ${at.text}`))
    : h("span", {class: "soft"}, "longer ago than the log tells");
  return async () => {
    const answer = await ask("producers", asked);
    put(rows, table(`${counted(answer.total, "producer")} with a transactional id`, [
      ["Transactional id", (one) => one.query ? h("a", {href: address("query", one.id), "data-key": `p${one.id}`}, one.id) : one.id, "", "name"],
      ["Producer", (one) => String(one.producer), "n"], ["Epoch", (one) => number(one.epoch), "n", "epoch"],
      ["Last transaction", (one) => one.number < 0 ? "none" : [`${number(one.number)}, `, words(one.state)]],
      [inZone("Last used"), (one) => time(one.last_ms), "t", "last"], ["Fenced earlier ones", fenced],
    ], answer.rows, byServer(asked, context.refresh)), h("p", {class: "soft"}, "A producer of an earlier epoch that still runs is a zombie: it gets PRODUCER_FENCED at its next call, and nothing of it gets into the log. " +
      "If the epoch goes on rising, two programs use one transactional id and fence each other: give each its own, or stop one."),
    pager(answer, (first) => { asked.first = first; context.refresh(); }));
  };
}

const writer = (at) => h("span", {class: "badge"}, at.writer || "an unnamed writer");
const happened = (at) => `${at.times > 1 ? `${number(at.times)} times since ${moment(at.first)}, last ` : ""}in entry ${number(at.entry)}, ${moment(at.time)}`;

// What was done to the log; entries tell it too, as long as they are there.
function audited(root, context) {
  const asked = context.asked("audit", {filter: "", sort: "", first: 0}), rows = h("div", {});
  put(root, h("h2", {}, "What was done"), asking(asked, context.refresh, field("Name, writer or deed has", "filter", {type: "search", autocomplete: "off"})), rows);
  return async () => {
    const answer = await ask("audit", asked);
    put(rows, table(counted(answer.total, "event"), [
      [inZone("When"), (one) => time(one.time), "t", "time"], ["What", (one) => one.what, "", "what"], ["Of", (one) => one.name || "the log", "", "name"], ["By", writer, "", "writer"],
      ["Times", (one) => number(one.times), "n", "times"], ["More", (one) => one.text, "", "text"], ["Entry", (one) => number(one.entry), "n", "entry"],
    ], answer.rows, byServer(asked, context.refresh)), pager(answer, (first) => { asked.first = first; context.refresh(); }));
  };
}

export function history(root, context) {
  const asked = context.asked("history", {until: null});  // None: the newest.
  const over = h("div", {}), rows = h("div", {}), problem = h("p", {class: "error", role: "alert"});
  const go = (entry) => { asked.until = entry; context.refresh(); };
  const wanted = () => asked.until === null ? {} : {until: asked.until};
  const form = h("form", {class: "bar", onsubmit: async (event) => {
    event.preventDefault();
    const place = form.elements.place.value.trim();
    problem.textContent = "";
    try { asked.until = place === "" ? null : /^\d{1,12}$/.test(place) ? Number(place) : (await ask("entry-at", {time: typedTime(place)})).entry; }
    catch (error) { problem.textContent = error.message; return; }
    context.refresh();
  }}, field("Entry or time", "place", {autocomplete: "off", placeholder: "newest"}), h("button", {type: "submit"}, "Go"));
  const below = h("div", {});
  put(root, form, problem, over, rows, below);
  const audit = audited(below, context);
  const self = {live: true, async update() {
    const answer = await ask("history", wanted());
    self.live = asked.until === null || answer.until < asked.until;  // The server may not have seen that entry yet.
    put(rows, h("p", {class: "soft"}, `Entries 0 to ${number(answer.newest)}. ` + (answer.oldest > 1 ? `Those from 1 to ${number(answer.oldest - 1)} are retired: a snapshot stands for them.` : "")),
      h("ol", {class: "line", "aria-label": "Entries, newest first"}, answer.rows.map(entry)),
      h("div", {class: "row"}, h("button", {type: "button", "data-key": "newest", onclick: () => go(null)}, "Newest"),
        h("button", {type: "button", "data-key": "older", disabled: answer.first <= Math.max(answer.oldest, 0), onclick: () => go(answer.first - 1)}, "Older")));
    put(over, strip(await ask("strip", wanted()), go));
    await audit();
  }};
  return self;
}

// The same as bars and as a table.
function strip(answer, go) {
  const label = `Entries ${number(answer.first)} to ${number(answer.until)} over time, by kind of writer`;
  const most = Math.max(0, ...answer.rows.map((step) => Object.values(step.counts).reduce((a, b) => a + b, 0)));
  const total = (kind) => answer.rows.reduce((sum, step) => sum + (step.counts[kind] || 0), 0);
  return [h("figure", {class: "panel"},
    axes(most, answer.begin_ms, answer.begin_ms + answer.steps * answer.step_ms, bars(
      `${label}: ${answer.kinds.map((kind) => `${kind} ${number(total(kind))}`).join(", ")}`, answer.steps, answer.kinds, answer.rows.map((step) => [step.step, step.counts]))),
    h("figcaption", {class: "soft"}, answer.kinds.map((kind, at) => h("span", {class: `key kind${at}`}, h("span", {}, `${kind} ${number(total(kind))}`))),
      h("div", {}, `From ${moment(answer.begin_ms)}; a bar is ${answer.step_ms < 120000 ? `${number(answer.step_ms / 1000)} s` : duration(answer.step_ms)}.`))),
  h("details", {"data-key": "strip"}, h("summary", {"data-key": "strip"}, "The bars as a table"), table(label, [
    [inZone("From"), (step) => time(step.time), "t", "time"],
    ["Entries", (step) => h("button", {type: "button", "data-key": `s${step.first}`, onclick: () => go(step.last)}, step.first === step.last ? number(step.first) : `${number(step.first)} to ${number(step.last)}`), "", "first"],
    ...answer.kinds.map((kind) => [kind, (step) => number(step.counts[kind] || 0), "n", kind, (step) => step.counts[kind] || 0]),
  ], answer.rows))];
}

function entry(one) {
  const box = h("div", {});
  return h("li", {}, h("b", {}, `Entry ${number(one.seq)}`), " ", h("span", {class: "soft"}, `${moment(one.time)}, ${size(one.bytes || 0)}`),
    one.problem ? h("div", {class: "error"}, one.problem) : null,
    (one.requests || []).map((request) => h("div", {}, h("span", {class: "badge"}, request.writer || "unnamed writer"),
      request.actions.map((action) => `${action.name}${action.count > 1 ? ` × ${action.count}` : ""}`).join(", "),
      request.records ? `; ${counted(request.records, "record")} in ${request.topics.join(", ")}` : "",
      request.groups.length ? `; offsets of ${request.groups.join(", ")}` : "",
      request.ends.length ? h("span", {class: request.ends.includes("abort") ? "bad" : "good"}, ` ${request.ends.join(", ")}`) : null,
      request.refused ? h("div", {class: "warn"}, `refused: ${request.refused}`) : null)),
    (one.fences || []).map((at) => h("div", {class: "warn"}, `producer ${at.producer} is at epoch ${number(at.epoch)} now, earlier ones are fenced: ${at.why}`)),
    one.more ? h("div", {}, `and ${counted(one.more, "more request")}`) : null,
    h("details", {"data-key": `e${one.seq}`, ontoggle: async (event) => {
      if (!event.target.open || box.childNodes.length) return;
      put(box, LOADING);
      try {
        const whole = await ask("entry", {entry: one.seq});
        put(box, whole.actions.map((action) => h("div", {}, h("b", {}, action.action), h("pre", {}, action.fields))));
      } catch (error) { put(box, h("p", {class: "error"}, error.message)); }
    }}, h("summary", {"data-key": `e${one.seq}`}, "Actions"), box));
}

export function storage(root, context) {
  const asked = context.asked("storage", {sort: "", first: 0});
  return {live: true, async update() {
    const answer = await ask("storage", asked), count = answer.counted, running = count.state === "running";
    put(root, tiles([["Bytes of records", size(answer.bytes)], ["Batches", number(answer.batches)],
      ["Requests of this page", number(Object.values(answer.requests).reduce((a, b) => a + b, 0))]]),
    h("h2", {}, "Maintenance"), table("What maintenance has left to do", [["What", (one) => one.name, "", "name"], ["How many", (one) => h("span", {class: one.high ? "warn" : ""}, number(one.value)), "n", "value"],
      ["Meaning", (one) => one.text, "", "text"], ["Command", (one) => typed(one.cure), "", "cure"]], answer.debt),
    h("h2", {}, "Objects"), h("p", {class: "row"}, h("button", {type: "button", "data-key": "count", onclick: async () => {
      await ask("count-objects", {do: running ? "stop" : "start"}); context.refresh(); }}, running ? "Stop" : "Count all objects"),
    h("span", {role: "status"}, running ? count.progress : count.error || (count.result ? `${number(count.result.objects)} objects, ${size(count.result.bytes)}` : "They are listed when you ask: that costs requests."))),
    count.result ? table("Objects by kind", [["Kind", (one) => one.kind, "", "kind"], ["Objects", (one) => number(one.objects), "n", "objects"], ["Bytes", (one) => size(one.bytes), "n", "bytes"]], count.result.kinds) : null,
    h("h2", {}, "Topics"), table("Stored records by topic", [["Topic", (one) => h("a", {href: address("topic", one.name), "data-key": one.name}, one.name), "", "name"], ["Bytes", (one) => size(one.bytes), "n", "bytes"],
      ["Batches", (one) => number(one.batches), "n", "batches"], ["Bytes a batch", (one) => size(one.average), "n", "average"], ["Not sealed", (one) => number(one.unsealed), "n", "unsealed"],
      ["Cleanup", (one) => one.cleanup, "", "cleanup"]], answer.rows, byServer(asked, context.refresh)),
    pager(answer, (first) => { asked.first = first; context.refresh(); }));
    if (running) setTimeout(() => context.refresh(), 500);
  }};
}

export function publications(root, context) {
  const asked = context.asked("publications", {sort: "", first: 0});
  return {live: true, async update() {
    const answer = await ask("publications", asked);
    put(root, answer.total ? table("Publications", [["Name", (one) => one.name, "", "name"], ["Format", (one) => one.format, "", "format"],
      ["Topics", (one) => one.topics.map((at) => h("div", {}, `${at.topic}: version ${at.version ?? "none"}`))], ["Version", (one) => number(one.sequence), "n", "sequence"],
      ["Entry", (one) => number(one.entry), "n", "entry"], [inZone("Time"), (one) => time(one.time), "t", "time"], ["Offsets behind", (one) => number(one.behind), "n", "behind"],
      ["State", (one) => one.unfinished ? h("span", {class: "warn"}, "a version is not finished") : one.begun ? "a version is being made" : "complete"]], answer.rows, byServer(asked, context.refresh)) : h("p", {}, "There are none."),
    pager(answer, (first) => { asked.first = first; context.refresh(); }));
  }};
}

export function health(root, context) {
  const quick = h("input", {type: "checkbox", id: "quick", checked: true}), shown = h("div", {}), state = h("div", {});
  const start = h("button", {type: "button", onclick: async () => {
    await ask("check-health", {do: start.textContent === "Stop" ? "stop" : "start", quick: quick.checked}); context.refresh();
  }}, "Verify now");
  put(root, h("p", {}, "Verification reads the whole log and changes nothing. It takes long for a large log; the quick one reads no data."),
    h("p", {class: "row"}, h("label", {for: "quick"}, quick, " quick"), start), shown);
  root.prepend(h("h2", {}, "Store"), state, h("h2", {}, "Verification"));
  root.append(logSettings(context));
  return {live: true, async update() {
    const job = await ask("health"), running = job.state === "running", result = job.result, {store} = job;
    start.textContent = running ? "Stop" : "Verify now";
    put(state, store.readable ? h("p", {class: "good"}, "The log can be read.")
      : h("p", {}, "The log cannot be read, for the reason above. Look at the store, the network and the rights of this page; it tries again by itself."),
    store.clock_problem ? h("p", {class: "warn"}, sentence(store.clock_problem)) : null);
    put(shown, h("p", {role: "status", class: result ? (result.sound ? "good" : "bad") : job.error ? "error" : ""},
      running ? job.progress : job.error || (result ? (result.sound ? (job.quick ? "All references are whole. The data was not read: a damaged file is found without “quick”." : "The log is sound.") : `Wrong: ${result.found.wrong}, unread: ${result.found.unread}.`) : job.state === "stopped" ? "Stopped." : "Not verified yet.")),
    result ? tiles([["Entries read", number(result.entries)], ["Retired", number(result.retired)], ["Records", number(result.records)], ["Files", number(result.files)],
      ["Bytes", size(result.bytes)], ["Files without reference", number(result.unreferenced_files)]]) : null,
    result?.unreferenced_files ? h("p", {}, `No entry refers to ${counted(result.unreferenced_files, "file")} of ${size(result.unreferenced_bytes)}: writers that died have left them, maintenance has replaced them, or a writer is about to commit them. What is older than a day is deleted by `,
      ...command("vacuum", LOG), "; ", ...command("vacuum", LOG, "--dry-run"), " lists it.") : null,
    (job.findings || []).length ? table("Findings", [["Verdict", (one) => h("span", {class: one.verdict === "wrong" || one.verdict === "unread" ? "bad" : ""}, one.verdict), "", "verdict"],
      ["Object", (one) => h("code", {}, one.name), "", "name"], ["What", (one) => one.text, "", "text"], ["What to do", (one) => one.remedy || "–", "", "remedy"]], job.findings) : null);
    if (running) setTimeout(() => context.refresh(), 400);
  }};
}
