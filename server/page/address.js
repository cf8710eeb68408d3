// The query is part of the address, so that it can be shared and the back button works.

/**
 * The query in the address: {q, like, k, backend, compare, filter}. `q` is a text; without one,
 * `like` is the id of a query image; `compare` is a second backend, shown beside the first; `filter`
 * is a list of conditions, all of which photos fulfil.
 */
export function currentQuery() {
  const params = new URLSearchParams(location.search);
  const q = params.get("q") ?? "";
  return {
    q,
    like: q.trim() ? "" : (params.get("like") ?? ""),
    k: params.get("k") ?? "20",
    backend: params.get("backend") ?? "",
    compare: params.get("compare") ?? "",
    filter: params.getAll("filter"),
  };
}

/** The address of the current query with some parts changed; empty parts are left out. */
export function addressOf(changes) {
  const parts = Object.entries({ ...currentQuery(), ...changes });
  const params = parts.flatMap(([name, value]) => [value].flat().filter((one) => one !== "").map((one) => [name, one]));
  return `?${new URLSearchParams(params)}`;
}

/** The conditions of a query as one filter. */
export const joined = (filter) => filter.map((one) => `(${one})`).join(" ");
