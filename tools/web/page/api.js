// The server: questions, answers, and what it tells by itself. The token comes in the address's
// fragment and is kept for this tab alone; no cookie.
if (location.hash.length > 1) {
  sessionStorage.setItem("token", location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
}
const token = sessionStorage.getItem("token") || "";
const headers = {Authorization: "Bearer " + token};

export class Refused extends Error {
  constructor(status, body) {
    super(body.error || "the server answered " + status);
    this.status = status;
    this.body = body;
  }
}

async function ask(method, path, body, more = {}) {
  const how = {method, headers: {...headers, ...more}};
  if (body !== undefined) {
    how.headers["Content-Type"] = "application/json";
    how.body = JSON.stringify(body);
  }
  const answer = await fetch("/api/" + path, how);
  const json = await answer.json();
  if (!answer.ok) throw new Refused(answer.status, json || {});
  return json;
}
export const get = path => ask("GET", path);
export const post = (path, body) => ask("POST", path, body);
export const put = (path, body, digest) => ask("PUT", path, body, {"If-Match": digest});
export const patch = (path, body) => ask("PATCH", path, body);
export const remove = path => ask("DELETE", path);

export async function bytes(path) {
  const answer = await fetch("/api/" + path, {headers});
  if (!answer.ok) throw new Refused(answer.status, await answer.json());
  return answer.arrayBuffer();
}

// Events, for as long as the page is open: after a break it goes on where it was.
const handlers = {};
export function on(kind, handler) {
  (handlers[kind] ||= []).push(handler);
}
export function emit(kind, data) {
  for (const handler of handlers[kind] || []) handler(data);
}

let seen = null;
function take(text) {
  const fields = {};
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
  }
  if (fields.id) seen = fields.id;
  if (fields.event) emit(fields.event, JSON.parse(fields.data));
}

// A browser makes six connections to a server, and a stream holds one: so of the tabs that are open one
// listens, and tells the others.
const others = new BroadcastChannel("events");
others.onmessage = ({data}) => take(data);

async function stream() {
  const answer = await fetch("/api/events",
    {headers: seen ? {...headers, "Last-Event-ID": seen} : headers});
  if (!answer.ok) throw new Refused(answer.status, {});
  emit("connected", true);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    rest += value;
    for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
      take(rest.slice(0, end));
      others.postMessage(rest.slice(0, end));
    }
  }
}

export const listen = () => navigator.locks.request("events", listenAlone);
async function listenAlone() {
  for (;;) {
    try {
      await stream();
    } catch (why) {
      if (why instanceof Refused && why.status === 401) return emit("connected", false);
    }
    emit("connected", false);
    await new Promise(resolve => setTimeout(resolve, 1500));
  }
}
