// The query is part of the address, so that it can be shared and the back button works.

/**
 * The query in the address: {q, like, k, backend, compare, filter, exact}. `q` is a text; without one,
 * `like` is the id of a query image; `compare` is a second backend, shown beside the first; `filter`
 * is a list of conditions, all of which photos fulfil; `exact` is "1" if no word is replaced.
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
    exact: params.get("exact") ?? "",
  };
}

/** The address of the current query with some parts changed; empty parts are left out, and `exact` for another text. */
export function addressOf(changes) {
  const exact = "q" in changes && changes.q !== currentQuery().q ? { exact: "" } : {};
  const parts = Object.entries({ ...currentQuery(), ...exact, ...changes });
  const params = parts.flatMap(([name, value]) => [value].flat().filter((one) => one !== "").map((one) => [name, one]));
  return `?${new URLSearchParams(params)}`;
}

/** The conditions of a query as one filter. */
export const joined = (filter) => (filter.length > 1 ? filter.map((one) => `(${one})`).join(" ") : filter.join(""));

/** The message of an error, with a column of the joined filter as the column of its condition. */
export function inCondition(message) {
  const { filter } = currentQuery();
  return message.replace(/^filter, column (\d+)/, (whole, column) => {
    let at = Number(column) - 1;
    for (const one of filter.length > 1 ? filter : []) {
      const length = [...one].length;
      if (at <= length + 1) return `filter ${one}, column ${Math.max(1, at)}`;
      at -= length + "() ".length;
    }
    return whole;
  });
}
