// Characters that show nothing, or turn the text around them: each is shown by its number. Words that are written from
// right to left are isolated: without that they would put the figures and names beside them into their own order.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|\p{Cs}/u;
const RIGHT_TO_LEFT = "\\u0590-\\u061b\\u061d-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufefe\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}";
const SPECIAL = new RegExp(`(${HIDDEN.source})|[${RIGHT_TO_LEFT}](?:[ \\d.:_/-]*[${RIGHT_TO_LEFT}])*\\d*`, "gu");
function visible(child) {
  if (typeof child !== "string" || child.search(SPECIAL) < 0) return child;
  const parts = [];
  let from = 0;
  for (const found of child.matchAll(SPECIAL)) {
    const [text, hidden] = found;
    parts.push(child.slice(from, found.index), hidden ? h("span", {class: "hidden-character", title: "a character that cannot be seen"},
      `U+${hidden.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`) : isolated(text));
    from = found.index + text.length;
  }
  return [...parts, child.slice(from)];
}
function isolated(text) {
  const element = document.createElement("bdi");
  element.textContent = text;
  return element;
}

// Elements from values. Text is always a text node: nothing that a log holds becomes HTML.
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && (name === "value" || name === "checked")) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((one) => one !== null && one !== undefined && one !== false).flatMap(visible));
  return element;
}

// Puts children in, and the focus back on what had it: by its key, or else by its place; never on what is disabled.
export function put(root, ...children) {
  const had = root.contains(document.activeElement) ? document.activeElement : null;
  const place = had ? focusable(root).indexOf(had) : -1, key = had?.dataset.key;
  const open = new Set([...root.querySelectorAll("details[open]")].map((one) => one.dataset.key));
  const across = [...root.querySelectorAll(".wide")].map((one) => one.scrollLeft);
  root.replaceChildren(...children.flat(3).filter(Boolean).flatMap(visible));
  for (const one of root.querySelectorAll("details")) if (open.has(one.dataset.key)) one.open = true;
  root.querySelectorAll(".wide").forEach((one, at) => { one.scrollLeft = across[at] || 0; });
  if (place < 0) return;
  const now = focusable(root), same = key ? now.findIndex((one) => one.dataset.key === key) : -1;
  const near = now.slice(0, (same < 0 ? place : same) + 1).findLast((one) => !one.disabled);
  (near || now.find((one) => !one.disabled))?.focus({preventScroll: true});
}

const focusable = (root) => [...root.querySelectorAll("a, button, input, select, summary")];

// A table with roles of its own, since a narrow page lays it out as blocks. The heads of its columns sort it.
// columns: [label, row => content, "n" for numbers and "t" for times, the field of a row that it is sorted by, row => that value].
// sort: what a server sorts, since it sends a page; without it the rows are all there.
export function table(caption, columns, rows, sort) {
  const name = caption.split(";")[0].replace(/[\d,.]+|s\b/g, ""), by = sort || byBrowser(name);
  const heads = columns.map(([label, , kind, key]) => h("th", {role: "columnheader", scope: "col", class: kind}, key === undefined ? label
    : h("button", {type: "button", class: "sort", "data-key": `sort ${name} ${key}`, title: `Sort by ${label}`, onclick: () => { by.choose(key); arrange(); }}, label)));
  const lines = new Map(rows.map((row) => [row, h("tr", {role: "row"}, columns.map(([label, make, kind]) => h("td", {role: "cell", class: kind, "data-label": label}, make(row))))]));
  const body = h("tbody", {role: "rowgroup"});
  function arrange() {
    const now = by.now(), at = columns.findIndex((one) => one[3] !== undefined && one[3] === now.by);
    heads.forEach((head, place) => place === at ? head.setAttribute("aria-sort", falls(columns[at], now.turned) ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
    body.append(...(sort || at < 0 ? rows : sorted(rows, columns[at], now.turned)).map((row) => lines.get(row)));
  }
  arrange();
  return h("div", {class: "wide", onfocusin: reveal}, h("table", {role: "table"}, h("caption", {}, caption), h("thead", {role: "rowgroup"}, h("tr", {role: "row"}, heads)), body));
}

// A browser takes what has the focus for seen if a part of it is, also below the last column where that stays in place.
function reveal({currentTarget: box, target}) {
  if (target.closest(":is(th, td):last-child")) return;
  const {left: from, right: end} = box.getBoundingClientRect(), {left, right} = target.getBoundingClientRect();
  const last = box.querySelector("th:last-child"), to = getComputedStyle(last).position === "sticky" ? last.getBoundingClientRect().left : end;
  box.scrollLeft += Math.max(right - to, 0) || Math.min(left - from, 0);
}

// Numbers and times begin with the largest, names with the first; but partitions are counted.
const falls = ([, , kind, key], turned) => (Boolean(kind) && key !== "partition") !== Boolean(turned);

// By numbers, then by texts; what has no value comes last.
function sorted(rows, column, turned) {
  const value = column[4] || ((row) => row[column[3]]), sign = falls(column, turned) ? -1 : 1;
  const place = (one) => one === null || one === undefined || one === "" ? 2 : typeof one === "number" ? 0 : 1;
  return rows.map((row) => [row, value(row)]).sort(([, a], [, b]) => place(a) - place(b) || (a < b ? -1 : a > b ? 1 : 0) * sign).map(([row]) => row);
}

// Each table of a view keeps its order while its rows are made again, and where the other choices of the view are kept.
let orders = {}, keepOrders;
export function useOrders(chosen, keep) { [orders, keepOrders] = [chosen, keep]; }
const byBrowser = (name) => ({now: () => orders[name] || {}, choose(key) { orders[name] = turn(orders[name], key); keepOrders(); }});
const turn = (now, key) => ({by: key, turned: now?.by === key && !now.turned});

// A long text begins in its row, and opens there.
const LONG = 100;
export function folded(text, key, whole = text) {
  if (text.length <= LONG && !text.includes("\n")) return whole;
  return h("details", {"data-key": key}, h("summary", {"data-key": key}, `${text.slice(0, LONG).split("\n")[0]} …`), whole);
}

export function byServer(asked, go) {
  const now = () => ({by: asked.sort, turned: Boolean(asked.reverse)});
  return {now, choose(key) {
    const {by, turned} = turn(now(), key);
    Object.assign(asked, {sort: by, reverse: turned, first: 0});
    go();
  }};
}

export function pager(answer, go, prefix = "") {
  const total = answer[prefix + "total"], first = answer[prefix + "first"], count = answer[prefix + "count"];
  if (total <= count) return null;
  return h("div", {class: "row", role: "group", "aria-label": "Pages"},
    h("button", {type: "button", "data-key": "page-back", disabled: first === 0, onclick: () => go(Math.max(first - count, 0))}, "Back"),
    h("span", {}, `${number(first + 1)} to ${number(Math.min(first + count, total))} of ${number(total)}`),
    h("button", {type: "button", "data-key": "page-on", disabled: first + count >= total, onclick: () => go(first + count)}, "On"));
}

export function tiles(pairs) {
  return h("dl", {class: "tiles"}, pairs.map(([name, value, kind]) =>
    h("div", {class: "tile"}, h("dt", {}, name), h("dd", {class: kind}, value))));
}

export function field(label, name, attributes, choices) {
  const id = `f-${name}`;
  const control = choices
    ? h("select", {id, name, ...attributes}, choices.map(([value, text]) =>
        h("option", {value, selected: attributes && attributes.now === value}, text)))
    : h("input", {id, name, ...attributes});
  return h("label", {for: id}, label, control);
}

// A form whose fields are what is asked for: a change of one asks anew, from the first row on.
export function asking(asked, go, ...fields) {
  const form = h("form", {class: "bar", role: "search", onsubmit: (event) => event.preventDefault(), oninput: (event) => {
    asked[event.target.name] = event.target.value; asked.first = 0; go();
  }}, fields);
  for (const one of form.elements) one.value = asked[one.name];
  return form;
}

export const LOADING = "Loading …";
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (text.endsWith(".") ? "" : ".");
// A rate is measured to a few digits: more of them would only look exact.
export function number(value) {
  if (value === null || value === undefined) return "–";
  const round = Number.isInteger(Number(value)) ? {} : Math.abs(value) < 100 ? {maximumSignificantDigits: 3} : {maximumFractionDigits: 0};
  return Number(value).toLocaleString("en", round);
}
// A name such as PreparingRebalance may go on in a new line where a word begins.
export const words = (name) => name.split(/(?<=[a-z])(?=[A-Z])/).flatMap((one) => [one, h("wbr")]);
export const counted = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

// Times as this browser's own, or UTC; it remembers which.
const LOCAL = "eoslog-times";
export const isLocal = () => localStorage.getItem(LOCAL) === "local";
export const setLocal = (on) => localStorage.setItem(LOCAL, on ? "local" : "utc");
export const zone = () => isLocal() ? Intl.DateTimeFormat().resolvedOptions().timeZone || "local" : "UTC";
export const inZone = (name) => `${name} (${zone()})`;
export function time(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  const shift = isLocal() ? new Date(ms).getTimezoneOffset() * 60000 : 0;
  return new Date(ms - shift).toISOString().replace("T", " ").slice(0, 23);
}
export const moment = (ms) => `${time(ms)} ${zone()}`;
// A time that a person has typed, for the server: it takes what has no zone for UTC.
export function typedTime(text) {
  if (!isLocal() || !/^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?$/.test(text)) return text;
  const found = new Date(text.length === 10 ? `${text}T00:00` : text.replace(" ", "T"));
  return isNaN(found) ? text : found.toISOString();
}
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const seconds = Math.floor(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} days`;
}
export function size(bytes) {
  // As size_text in spark_eos/maintenance/maintain.py: the same thing has the same size in a terminal.
  let value = bytes;
  if (Math.round(value) === 1) return "1 byte";
  for (const unit of ["bytes", "kB", "MB", "GB"]) {
    if (value < 1000) return `${value.toFixed(unit === "bytes" ? 0 : 1)} ${unit}`;
    value /= 1000;
  }
  return `${value.toFixed(1)} TB`;
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function drawing(kind, label, pairs) {
  const box = svg("svg", {class: kind, role: "img", "aria-label": label, viewBox: "0 0 100 30", preserveAspectRatio: "none"}, svg("title", {}, label));
  if (pairs.length < 2) return box;
  const [from, to] = [pairs[0][0], pairs[pairs.length - 1][0]];
  const most = Math.max(...pairs.map((one) => one[1]), 1e-9);
  const line = pairs.map(([x, y]) => `${(100 * (x - from) / Math.max(to - from, 1)).toFixed(2)},${(28 - 26 * y / most).toFixed(2)}`).join(" L");
  box.append(svg("path", {class: "area", d: `M0,30 L${line} L100,30 Z`}), svg("path", {class: "line", d: `M${line}`}));
  return box;
}

// Stacked bars: steps of [place, {kind: count}], of so many places; a kind has the colour of its number.
export function bars(label, places, kinds, steps) {
  const box = svg("svg", {class: "chart", role: "img", "aria-label": label, viewBox: `0 0 ${places} 30`, preserveAspectRatio: "none"});
  const most = Math.max(1, ...steps.map(([, counts]) => Object.values(counts).reduce((a, b) => a + b, 0)));
  for (const [place, counts] of steps) {
    let top = 30;
    kinds.forEach((kind, at) => {
      const height = 29 * (counts[kind] || 0) / most;
      top -= height;
      if (height) box.append(svg("rect", {class: `kind${at}`, x: place + 0.05, y: top, width: 0.9, height}));
    });
  }
  return box;
}

export function spark(values, what) {
  const last = values.length ? values[values.length - 1] : 0;
  return drawing("spark", `${what}: now ${number(last)}, at most ${number(Math.max(0, ...values))}`, values.map((one, at) => [at, one]));
}
export function chart(points, what) {
  const values = points.map((one) => one[1]);
  const label = values.length
    ? `${what}: now ${number(values[values.length - 1])}, at most ${number(Math.max(...values))}, over ${duration(points[points.length - 1][0] - points[0][0])}`
    : `${what}: nothing yet`;
  const drawn = drawing("chart", label, points);
  return h("figure", {class: "panel"},
    values.length < 2 ? drawn : axes(Math.max(...values), points[0][0], points[points.length - 1][0], drawn), h("figcaption", {class: "soft"}, label));
}

// What is at the top, and the times at both ends: above and below a drawing, whose name says the same.
export function axes(most, from, to, drawn) {
  const line = (...texts) => h("div", {class: "axes", "aria-hidden": "true"}, texts.map((one) => h("span", {}, one)));
  return [line(number(most)), drawn, line(`0 at ${moment(from).slice(11, 19)}`, moment(to).slice(11, 19))];
}
