// Requests to the REST interface. A published site has a module with the same exports in its place.

import { joined } from "./address.js";

// Shows the server that this page sends a request: scripts of other sites cannot add it.
const PAGE = { "X-Sparta-Page": "1" };
const AWAY = [502, 503, 504];
// For the answers of a proxy, which have no words: what they mean, and what to do.
const LATER = "It may be starting. Try again in a minute; if this lasts, tell who runs the server.";
const WORDS = {
  413: ["Too large", "The proxy in front of the server takes no file of this size. Choose a smaller one, or have the proxy's limit raised."],
  429: ["Too many requests", "Wait a moment, then try again."],
  502: ["The server cannot be reached", LATER],
  503: ["The server is busy", LATER],
  504: ["The server took too long", LATER],
};

/** A failed request: an error response, or no response at all; `retryAfter` in seconds, or 0. */
export class Problem extends Error {
  constructor(title, detail, status, retryAfter = 0) {
    super(detail);
    this.title = title;
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

async function send(path, options) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...PAGE, ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer", "Is “sparta serve” still running?");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) {
    const { status, headers } = response;
    const [title, detail] = WORDS[status] ?? ["The server failed", `Status ${status}`];
    const wait = Number(headers.get("Retry-After")) || (AWAY.includes(status) ? 2 : 0);
    throw new Problem(body.title ?? title, body.detail ?? detail, status, wait);
  }
  return body;
}

/** An answer of the server; if that needs a key, the event "key-needed" asks for it. */
async function ask(path, options) {
  try {
    return await send(path, options);
  } catch (error) {
    if (error.status === 401) dispatchEvent(new Event("key-needed"));
    throw error;
  }
}

const get = (path, signal) => ask(path, { signal });

const json = (body) => ({ method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

const pathOf = (imageId) => `v1/images/${imageId.split("/").map(encodeURIComponent).join("/")}`;

/** Store a key in a cookie that this script cannot read, if the server accepts the key. */
export const signIn = (key) => send("v1/sign-in", json({ key }));

export const signOut = () => send("v1/sign-out", { method: "POST" });

/** The key with which this browser is signed in, null if none is needed, and what it allows. */
export const session = () => get("v1/session");

const kindOf = ({ type }) => ({ "Content-Type": type.startsWith("image/") ? type : "application/octet-stream" });

/** The address of a small picture of a photo, with a side of at most 256 or 512 pixels. */
export function thumbnail(url, size) {
  const [, photo, query] = url.match(/^(.*)\/file(?:\?(.*))?$/);
  return `${photo}/thumbnail?size=${size}${query ? `&${query}` : ""}`;
}

/** What the index stores about a photo, and where its file is. */
export const photo = (imageId) => get(pathOf(imageId));

/**
 * Add the file of a photo, and wait until searches find it; it takes the place of one with its id
 * only if `replace` says so, else that is a problem of status 412.
 */
export const putPhoto = (imageId, file, replace, signal) =>
  ask(pathOf(imageId), {
    method: "PUT",
    headers: {
      ...kindOf(file),
      ...(replace ? {} : { "If-None-Match": "*" }),
    },
    body: file,
    signal,
  });

/** Search for photos like one in a file, which is not added. */
async function similarTo(file, params, signal) {
  const answer = await ask(`v1/images/similar?${params}`, { method: "POST", headers: kindOf(file), body: file, signal });
  return { ...answer, ...PLAIN, query: "", image_id: file.name, total: null, cursor: null };
}

/** Delete photos from the index, and wait until no search finds them. */
export const deletePhotos = (ids) => ask("v1/images/delete", json({ ids }));

export const backends = async () => (await get("v1/backends")).backends;

/** Queries of which the last word is completed, with how many photos have it. */
export const suggestions = async (q, signal) =>
  (await get(`v1/suggest?${new URLSearchParams({ q, k: 6 })}`, signal)).suggestions;

// What answers of searches by an image lack.
const PLAIN = { unknown: [], rare: [], corrections: [], substitutions: [], conditions: [] };

let asked;

/** The fields of the photos with their kinds. */
export const fields = () => (asked ??= get("v1/fields").then((answer) => answer.fields));

/** How many photos of a query have each value of some fields: {facet: [{value, count}, …]}. */
export async function counts({ q, filter }, facets, signal) {
  const params = new URLSearchParams({ k: 1, facets: facets.join(",") });
  if (q.trim()) params.set("q", q);
  if (filter.length) params.set("filter", joined(filter));
  return (await get(`v1/search?${params}`, signal)).facets;
}

/**
 * Search for a query {q, like, file, k, backend, filter, cursor, exact}, by text, by image or by the file of
 * one, explaining the hits; without any, the photos that fulfil the filter, the newest first.
 */
export async function search({ q, like, file, k, backend, filter, cursor, exact }, signal) {
  const params = new URLSearchParams({ k, explain: "true" });
  if (backend) params.set("backend", backend);
  if (cursor) params.set("cursor", cursor);
  if (filter.length) params.set("filter", joined(filter));
  if (file) return similarTo(file, params, signal);
  if (like) {
    return { ...(await get(`${pathOf(like)}/similar?${params}`, signal)), ...PLAIN };
  }
  if (exact) params.set("substitute", "false");
  if (q.trim()) params.set("q", q);
  else if ((await fields()).taken === "date") params.set("sort", "-taken");
  return get(`v1/search?${params}`, signal);
}
