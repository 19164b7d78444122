import {begin, current, logOut} from "./api.js";
import {h, number, put} from "./dom.js";
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

function show(error) {
  let box = document.getElementById("problem");
  if (!box) { box = h("p", {id: "problem", role: "alert", class: "error"}); main.append(box); }
  if (box.textContent !== error) box.textContent = error;
}

async function update() {
  if (busy) { wanted = true; return; }
  busy = true;
  const asked = view;
  try {
    await asked.update();
    if (asked === view) document.getElementById("problem")?.remove();
  } catch (error) {
    if (asked === view) show(error.message);
  }
  busy = false;
  if (wanted) { wanted = false; update(); }
}

function route() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  if (name === "main") return;
  const known = VIEWS.find((one) => one[0] === name) || (MORE[name] ? null : VIEWS[0]);
  const make = known ? known[2] : MORE[name][0], section = known ? known[0] : MORE[name][1];
  const title = known ? known[1] : rest[0];
  document.title = `${title} – eoslog`;
  for (const link of document.querySelectorAll("#views a")) {
    if (link.dataset.view === section) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const body = h("div", {});
  put(main, h("h1", {}, title), body);
  view = make(body, {name: rest[0], refresh: () => update(), session: current.session});
  update();
}

function connect() {
  stream?.close();
  stream = new EventSource(`/events?log=${current.log}`);
  let known = -1;
  stream.onmessage = (event) => {
    const pulse = JSON.parse(event.data);
    const text = pulse.error ? pulse.error : `live, entry ${number(pulse.seq)}`;
    live.className = pulse.error ? "off" : "on";
    // The state is announced when it changes, not with each entry.
    if (!live.textContent.startsWith("live") || pulse.error) live.setAttribute("aria-live", "polite");
    else live.setAttribute("aria-live", "off");
    live.textContent = text;
    if (view?.live && (pulse.version !== known || view.always)) update();
    known = pulse.version;
  };
  stream.onerror = () => {
    live.className = "off";
    live.setAttribute("aria-live", "polite");
    live.textContent = "connection lost, trying again";
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
    current.log = Number(log.value);
    connect();
    const detail = MORE[location.hash.split("/")[1]];
    if (detail) location.hash = `#/${detail[1]}`;  // The other log need not have this topic, group or query.
    else route();
  });
  const out = document.getElementById("logout");
  out.hidden = !session.login;
  out.addEventListener("click", logOut);
  document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
  window.addEventListener("hashchange", () => { route(); main.focus(); });
  keys();
  route();
  connect();
}

start();
