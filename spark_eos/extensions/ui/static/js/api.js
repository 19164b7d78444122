// Questions go out as POST: neither record content nor search text is ever in an address.
let session = null;
export const current = {log: 0};

export async function begin() {
  const answer = await reached(() => fetch("/session"));
  if (answer.status === 401) {
    location.assign(`/login${location.search}${location.hash}`);
    await new Promise(() => {});  // Another page comes.
  }
  const now = await answer.json();
  // Questions name a log by its number: it may be another one's by now.
  if (session && JSON.stringify(now.logs) !== JSON.stringify(session.logs))
    throw failure("The server of this page was started again with other logs, so nothing was asked or changed. Load the page again.");
  session = now;
  return session;
}

async function post(path, fields) {
  return reached(() => fetch(path, {
    method: "POST",
    headers: {"content-type": "application/json", "x-csrf-token": session.csrf},
    body: JSON.stringify(fields),
  }));
}

// An error whose `code` says what it is. NO_REPLY: whether the server has done what was asked is not known.
function failure(text, code) {
  return Object.assign(new Error(text), {code});
}

async function reached(call) {
  try { return await call(); }
  catch { throw failure("The server of this page does not answer: it was stopped, or the network is down.", "NO_REPLY"); }
}

// Answers come between two presses only: what is pressed is not drawn anew before it is let go, or the click is lost.
const PRESS_MS = 5000, CLICK_MS = 100;  // A press on a scrollbar has no end; a click comes after its end.
let timer = null, waiting = [];
function hold(ms) { clearTimeout(timer); timer = setTimeout(letGo, ms); }
function letGo() { timer = null; for (const go of waiting.splice(0)) go(); }
addEventListener("pointerdown", () => hold(PRESS_MS), true);
addEventListener("keydown", (event) => { if (event.key === " " && !event.repeat) hold(PRESS_MS); }, true);
for (const end of ["pointerup", "pointercancel", "keyup"]) addEventListener(end, () => { if (timer !== null) hold(CLICK_MS); }, true);

export async function ask(area, fields = {}) {
  try { return await answered(area, fields); }
  finally { if (timer !== null) await new Promise((go) => waiting.push(go)); }
}

async function answered(area, fields) {
  let answer = await post(`/api/${area}`, {log: current.log, ...fields});
  if (answer.status === 403 || answer.status === 401) {
    await begin();  // The page was started again, or the session has ended.
    answer = await post(`/api/${area}`, {log: current.log, ...fields});
  }
  const value = await reached(() => answer.json());
  if (!answer.ok) throw failure(value.error, value.code);
  return value;
}

export async function logOut() {
  await post("/logout", {});
  location.assign("/login");
}
