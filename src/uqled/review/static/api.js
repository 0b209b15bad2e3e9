// Questions to the server. Addresses are relative: they begin with the token, as the page's does.

export class Refused extends Error {
  constructor(status, body) {
    super(body.error || `the server answered ${status}`);
    this.status = status;
    this.body = body;
  }
}

export function ask(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  const text = new URLSearchParams(given).toString();
  return answer(fetch(text ? `${path}?${text}` : path, { cache: "no-store" }));
}

export function send(path, body) {
  const headers = { "Content-Type": "application/json" };
  return answer(fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function answer(request) {
  const response = await request;
  let body = {};
  try {
    body = await response.json();
  } catch {
    // A refusal may be plain text.
  }
  if (!response.ok) throw new Refused(response.status, body);
  return body;
}
