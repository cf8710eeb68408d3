// What is asked stands in the address, so that it can be shared and gone back to.

/**
 * What the address asks: {q, like, k, backend, compare}: a text, or else the photo that others
 * should be like; the last is a second backend to put beside.
 */
export function asked() {
  const params = new URLSearchParams(location.search);
  const q = params.get("q") ?? "";
  return {
    q,
    like: q.trim() ? "" : (params.get("like") ?? ""),
    k: params.get("k") ?? "20",
    backend: params.get("backend") ?? "",
    compare: params.get("compare") ?? "",
  };
}

/** The address of a question; what it does not say stays as it is, what is empty is left out. */
export function addressOf(question) {
  const params = Object.entries({ ...asked(), ...question }).filter(([, value]) => value !== "");
  return `?${new URLSearchParams(params)}`;
}
