// Requests to the REST interface.

/** A failed request: an error response, or no response at all. */
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

/** Search for a query {q, like, k, backend}, by text or by image; hits come with explanations. */
export async function search({ q, like, k, backend }, signal) {
  const params = new URLSearchParams({ k, explain: "true" });
  if (backend) params.set("backend", backend);
  if (like) {
    const photo = like.split("/").map(encodeURIComponent).join("/");
    return { ...(await get(`/v1/images/${photo}/similar?${params}`, signal)), unknown: [], substitutions: [] };
  }
  params.set("q", q);
  return get(`/v1/search?${params}`, signal);
}
