// The REST interface as the page needs it.

/** An answer that is not one: a problem of the server, or no server at all. */
export class Problem extends Error {
  constructor(title, detail) {
    super(detail);
    this.title = title;
  }
}

async function get(path, signal) {
  let response;
  try {
    response = await fetch(path, { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer", "Is “sparta serve” still running?");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) {
    throw new Problem(body.title ?? "The server failed", body.detail ?? `Status ${response.status}`);
  }
  return body;
}

export const backends = async () => (await get("/v1/backends")).backends;

/** The answer to a question {q, like, k, backend}, every hit with its explanation. */
export async function search({ q, like, k, backend }, signal) {
  const asked = new URLSearchParams({ k, explain: "true" });
  if (backend) asked.set("backend", backend);
  if (like) {
    const photo = like.split("/").map(encodeURIComponent).join("/");
    return { ...(await get(`/v1/images/${photo}/similar?${asked}`, signal)), unknown: [] };
  }
  asked.set("q", q);
  return get(`/v1/search?${asked}`, signal);
}
