// Questions go out as POST: neither record content nor search text is ever in an address.
let session = null;
export const current = {log: 0};

export async function begin() {
  const answer = await reached(() => fetch("/session"));
  if (answer.status === 401) { location.assign("/login"); }
  session = await answer.json();
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

export async function ask(area, fields = {}) {
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
