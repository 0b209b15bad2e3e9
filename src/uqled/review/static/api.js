// Questions to the server. Addresses are relative: they begin with the token, as the page's does.

export class RefusedRequest extends Error {
  constructor(status, body) {
    super(body.error || `the server answered ${status}`);
    this.status = status;
    this.body = body;
  }
}

export class UnreachableServer extends Error {
  constructor() {
    super("the server does not answer");
  }
}

async function request(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new UnreachableServer();
  }
}

function get(path, query) {
  const values = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  const text = new URLSearchParams(values).toString();
  return request(text ? `${path}?${text}` : path, { cache: "no-store" });
}

export const ask = (path, query = {}) => answer(get(path, query));

// An answer of plain bytes.
export async function askBytes(path, query = {}) {
  const response = await get(path, query);
  if (!response.ok) throw new RefusedRequest(response.status, {});
  return response.arrayBuffer();
}

export function send(path, body) {
  const headers = { "Content-Type": "application/json" };
  return answer(request(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function answer(pending) {
  const response = await pending;
  if (response.ok) {
    return response.json().catch(() => {
      throw new UnreachableServer(); // the line was cut in the middle of the answer
    });
  }
  throw new RefusedRequest(response.status, await response.json().catch(() => ({}))); // a refusal may be plain text
}
