import {begin, current, logOut} from "./api.js";
import {LOADING, duration, h, isLocal, moment, number, put, sentence, setLocal, useOrders} from "./dom.js";
import * as operations from "./operations.js";
import * as readers from "./readers.js";
import * as topics from "./topics.js";

const VIEWS = [
  ["overview", "Overview", operations.overview],
  ["topics", "Topics", topics.topics],
  ["groups", "Groups and queries", readers.groups],
  ["transactions", "Transactions", operations.transactions],
  ["history", "History", operations.history],
  ["storage", "Storage", operations.storage],
  ["publications", "Publications", operations.publications],
  ["health", "Health", operations.health],
];
const MORE = {topic: [topics.topic, "topics"], group: [readers.group, "groups"], query: [readers.query, "groups"]};
const main = document.getElementById("main"), live = document.getElementById("live");
let view = null, busy = false, wanted = false, stream = null;

// -- How old it is what is shown ---------------------------------------------------------------------------
const OLD_MS = 4000;  // Longer than the server remembers what costs it much.
const LATE_MS = 30000;  // Longer than the server waits between two polls, and the stream between two events.
// When the server has read the log, by its own clock, and how old that was when it said so. What was here since then is
// measured by a clock that is never set (performance.now).
let heard = null, connected = true, problem = null, shownAt = null;
const why = h("p", {role: "alert"}), since = h("p", {id: "age"}), stale = h("div", {id: "stale", hidden: true}, why, since);
const loading = h("p", {role: "status", hidden: true}, LOADING);

function age() { return heard ? heard.age + performance.now() - heard.at : 0; }

function judge() {
  const found = !connected ? "The connection to the server of this page is lost. It is tried again."
    : heard?.error ? heard.error
    : age() > LATE_MS ? "The server of this page has not read the log for a while: the store does not answer, or the network is down."
    : problem;
  const reason = found && sentence(found);
  const blank = shownAt === null;  // Nothing of this view was shown yet.
  stale.hidden = !reason;
  loading.hidden = !blank || Boolean(reason);
  main.classList.toggle("stale", Boolean(reason) && !blank);
  if (why.textContent !== (reason || "")) why.textContent = reason || "";  // It is announced only if it changes.
  since.hidden = blank;
  if (!reason || blank) return;
  const byUs = found === problem || !heard, old = byUs ? performance.now() - shownAt : age();
  since.textContent = `Not up to date: this is the log as it was at ${moment(byUs ? Date.now() - old : heard.read)}, ${duration(old)} ago.`;
}
setInterval(judge, 1000);

async function update() {
  if (busy) { wanted = true; return; }
  busy = true;
  const asked = view;
  try {
    await asked.update();
    if (asked === view) { problem = null; shownAt = performance.now(); }
  } catch (error) {
    if (asked === view) problem = error.message;
  }
  judge();
  busy = false;
  if (wanted) { wanted = false; update(); }
}

// The log is in the address, so that a reload, a bookmark or the way back shows the same one.
function choose() {
  const asked = new URLSearchParams(location.search).get("log"), logs = current.session.logs;
  const at = asked === null ? 0 : logs.findIndex((one) => one.name === asked);
  current.log = Math.max(at, 0);
  current.name = at < 0 ? asked : logs[at].name;
  document.getElementById("log").value = at < 0 ? "" : String(at);
  if (at >= 0) return true;
  stream?.close();
  stream = null;
  document.title = `${asked} – eoslog`;
  live.textContent = "";
  put(main, h("h1", {}, "This log is not shown here"),
    h("p", {role: "alert"}, `This page was started without log ${asked}. Choose another one above, or start it with that log's address.`));
  return false;
}

// The parts of the address behind its #, or none that there is.
function places() {
  const hash = location.hash.replace(/^#\/?/, "");
  try { return (hash || VIEWS[0][0]).split("/").map(decodeURIComponent); }
  catch { return [hash]; }  // A % that begins no character.
}

// What a person has chosen stays with this place in the browser's history: a reload and the way back show it again. It is
// in no address.
function choosing(body) {
  const was = history.state?.at === location.href ? history.state.chosen : {}, chosen = {};
  return {asked: (name, fresh) => chosen[name] = {...fresh, ...was[name]}, keep() {
    if (!body.isConnected) return;  // Another view is shown by now.
    const now = {at: location.href, chosen};
    if (JSON.stringify(now) !== JSON.stringify(history.state)) history.replaceState(now, "");
  }};
}

function route() {
  if (!stream) return;
  const [name, ...rest] = places();
  if (name === "main") return;
  const known = VIEWS.find((one) => one[0] === name), detail = rest[0] && Object.hasOwn(MORE, name) ? MORE[name] : null;
  const make = known ? known[2] : detail?.[0] || nowhere, section = known ? known[0] : detail?.[1];
  const title = known ? known[1] : detail ? rest[0] : "There is no such view";
  document.title = `${title} – ${current.name} – eoslog`;
  for (const link of document.querySelectorAll("#views a")) {
    if (link.dataset.view === section) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const body = h("div", {});
  problem = shownAt = null;
  put(main, h("h1", {}, title), stale, body, loading);
  judge();
  const {asked, keep} = choosing(body);
  useOrders(asked("orders", {}), keep);
  view = make(body, {name: rest[0], asked, keep, refresh: () => { keep(); update(); }, session: current.session});
  update();
}

function nowhere(root) {
  put(root, h("p", {role: "alert"}, "The address of this page names none of its views. Choose one of them."));
  return {update: () => {}};
}

function connect() {
  stream?.close();
  stream = new EventSource(`/events?log=${current.log}`);
  const mine = stream;
  let known = -1;
  heard = null;
  current.seq = null;
  stream.onmessage = (event) => {
    const pulse = JSON.parse(event.data);
    current.seq = pulse.seq;
    heard = {error: pulse.error, read: pulse.read, age: pulse.age, at: performance.now()};
    const back = !connected;
    connected = true;
    judge();
    const text = pulse.error ? "cannot be read" : `live, entry ${number(pulse.seq)}`;
    live.className = pulse.error ? "off" : "on";
    // The state is announced when it changes, not with each entry.
    if (!live.textContent.startsWith("live") || pulse.error) live.setAttribute("aria-live", "polite");
    else live.setAttribute("aria-live", "off");
    live.textContent = text;
    // Ages grow, and what costs much is measured now and then only: both also where nothing is written any more.
    if (view?.live && (pulse.version !== known || performance.now() - shownAt > OLD_MS || back)) update();
    known = pulse.version;
  };
  stream.onerror = () => {
    live.className = "off";
    live.setAttribute("aria-live", "polite");
    live.textContent = "connection lost, trying again";
    connected = false;
    judge();
    // The browser tries again by itself, unless it got another answer than a stream.
    if (mine.readyState === EventSource.CLOSED) setTimeout(() => { if (mine === stream) begin().then(connect, mine.onerror); }, 3000);
  };
}

function keys() {
  const help = document.getElementById("help"), on = document.getElementById("keys-on");
  on.checked = localStorage.getItem("eoslog-keys") !== "off";
  on.addEventListener("change", () => localStorage.setItem("eoslog-keys", on.checked ? "on" : "off"));
  put(document.getElementById("keys"),
    VIEWS.map(([, title], at) => [h("dt", {}, h("code", {}, String(at + 1))), h("dd", {}, title)]),
    h("dt", {}, h("code", {}, "/")), h("dd", {}, "The first field of the view"),
    h("dt", {}, h("code", {}, "?")), h("dd", {}, "These keys"));
  document.getElementById("help-open").addEventListener("click", () => help.showModal());
  document.getElementById("help-close").addEventListener("click", () => help.close());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || !on.checked) return;
    if (event.target.closest("input, select, textarea, dialog")) return;
    const at = "12345678".indexOf(event.key);
    if (at >= 0) { location.hash = `#/${VIEWS[at][0]}`; main.focus(); }
    else if (event.key === "?") help.showModal();
    else if (event.key === "/") { event.preventDefault(); main.querySelector("input, select")?.focus(); }
  });
}

async function start() {
  const session = await begin();
  current.session = session;
  put(document.getElementById("views"), VIEWS.map(([name, title]) =>
    h("li", {}, h("a", {href: `#/${name}`, "data-view": name}, title))));
  const log = document.getElementById("log");
  put(log, session.logs.map((one, at) => h("option", {value: String(at), title: one.url}, one.name)));
  log.addEventListener("change", () => {
    const detail = MORE[location.hash.split("/")[1]];  // The other log need not have this topic, group or query.
    history.pushState(null, "", `?log=${encodeURIComponent(session.logs[log.value].name)}${detail ? `#/${detail[1]}` : location.hash}`);
    show();
  });
  window.addEventListener("popstate", () => { if (new URLSearchParams(location.search).get("log") !== current.asked) show(); });
  const out = document.getElementById("logout");
  out.hidden = !session.login;
  out.addEventListener("click", logOut);
  const zones = document.getElementById("zone");
  const showZone = () => { zones.textContent = isLocal() ? "Local time" : "UTC"; zones.setAttribute("aria-pressed", String(isLocal())); };
  zones.addEventListener("click", () => { setLocal(!isLocal()); showZone(); update(); });
  showZone();
  document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
  window.addEventListener("hashchange", () => { route(); main.focus(); });
  keys();
  show();
}

function show() {
  const logs = current.session.logs;
  if (logs.length > 1 && !location.search) history.replaceState(null, "", `?log=${encodeURIComponent(logs[0].name)}${location.hash}`);
  current.asked = new URLSearchParams(location.search).get("log");
  if (!choose()) return;
  connect();
  route();
}

start();
