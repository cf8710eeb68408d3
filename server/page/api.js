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

/** The answer to a question {q, k, backend}, every hit with its explanation. */
export function search(question, signal) {
  const asked = new URLSearchParams({ q: question.q, k: question.k, explain: "true" });
  if (question.backend) asked.set("backend", question.backend);
  return get(`/v1/search?${asked}`, signal);
}
