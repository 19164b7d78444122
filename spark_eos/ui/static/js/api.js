// Questions go out as POST: neither record content nor search text is ever in an address.
let session = null;
export const current = {log: 0};

export async function begin() {
  const answer = await fetch("/session");
  if (answer.status === 401) { location.assign("/login"); }
  session = await answer.json();
  return session;
}

async function post(path, fields) {
  return fetch(path, {
    method: "POST",
    headers: {"content-type": "application/json", "x-csrf-token": session.csrf},
    body: JSON.stringify(fields),
  });
}

export async function ask(area, fields = {}) {
  let answer = await post(`/api/${area}`, {log: current.log, ...fields});
  if (answer.status === 403 || answer.status === 401) {
    await begin();  // The page was started again, or the session has ended.
    answer = await post(`/api/${area}`, {log: current.log, ...fields});
  }
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
}

export async function logOut() {
  await post("/logout", {});
  location.assign("/login");
}
