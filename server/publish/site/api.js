// The answers of the REST interface, given by an index of plain files in place of a server: what the
// page of a published site has as its api.js.

import { QueryError } from "../search/index.js";
import { joined } from "./address.js";
import { opened } from "./opened.js";

const BACKEND = "sparta";
const DEEPEST = 10_000; // hits until the last one that a page may have
const KEEP_AFTER = 3000; // milliseconds after which files are kept for visits without network

/** A search that failed. */
export class Problem extends Error {
  constructor(title, detail) {
    super(detail);
    this.title = title;
    this.status = 0;
  }
}

/** An index that is open, and what a task makes of it. */
async function answered(task) {
  try {
    return await task(await opened);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (error instanceof QueryError) throw new Problem("Invalid parameter", `q: ${error.problem} (column ${error.column})`);
    if (error.name === "FilterError") throw new Problem("Invalid parameter", error.message);
    throw new Problem("The index cannot be read", error.message);
  }
}

let pictures = { sizes: [], suffix: "", originals: false };
opened.then(({ about }) => (pictures = about.pictures)).catch(() => {});

const picture = (name, size) => `photos/${size}-${name}${pictures.suffix}`;

/** The smallest size that is enough, else the largest there is. */
const fitting = (wanted) => pictures.sizes.find((size) => size >= wanted) ?? pictures.sizes.at(-1);

/** The address of the largest picture of a photo; one that is small has no larger ones. */
function urlOf(photo, { width, height }) {
  if (photo === null) return null;
  if (pictures.originals) return `photos/original-${photo}`;
  return picture(photo, fitting(Math.max(width, height) || Infinity));
}

/** The address of a picture of a photo that is large enough for a size, or else as large as there is. */
export function thumbnail(url, size) {
  const [, largest, name] = url.match(/(\w+)-([0-9a-f]+)(?:\.\w+)?$/);
  return picture(name, fitting(Math.min(size, Number(largest) || Infinity)));
}

export const photo = (imageId) =>
  answered(async (index) => {
    const { photo: name, ...found } = await index.image(imageId);
    return { ...found, backend: BACKEND, url: urlOf(name, found.metadata) };
  });

export const backends = () =>
  answered(({ images, about }) => [
    { name: BACKEND, default: true, images, missing_images: 0, photos: pictures.sizes.length > 0, explains: true, examples: about.examples },
  ]);

export const suggestions = (q) => answered((index) => index.complete(q, 6));

export const fields = () => answered((index) => index.kinds);

export const counts = ({ q, filter }, facets, signal) =>
  answered(async (index) => (await index.browse(q, { k: 1, facets, filter: joined(filter), signal })).facets);

/** An answer as the REST interface has it. */
async function complete(index, { hits, unknown, substitutions, timings, total = null, ...found }, offset, k) {
  const misspelt = substitutions.filter(({ similarity }) => similarity === null).map(({ word }) => word);
  const last = offset + hits.length;
  return {
    ...found,
    backend: BACKEND,
    hits: hits.map(({ photo: name, ...hit }) => ({ ...hit, url: urlOf(name, hit.metadata), view: null })),
    unknown,
    substitutions,
    corrections: await index.corrections([...misspelt, ...unknown]),
    timings: { ...timings, encode_ms: 0 },
    missing_images: 0,
    total,
    cursor: hits.length === k && last < DEEPEST ? `${last}` : null,
  };
}

export const search = ({ q, like, k, filter, cursor, exact }, signal) =>
  answered(async (index) => {
    const offset = Number(cursor ?? 0);
    const options = { k: Number(k), offset, filter: joined(filter), explain: true, substitute: !exact, signal };
    if (!(options.k >= 1 && options.k <= 1000)) throw new Problem("Invalid parameter", "k: give a number from 1 to 1000");
    if (like) {
      const { photo: name, metadata } = await index.image(like);
      const found = await complete(index, await index.similar(like, options), 0, Infinity);
      return { ...found, query: "", image_id: like, url: urlOf(name, metadata) };
    }
    if (q.trim()) return { ...(await complete(index, await index.search(q, options), offset, options.k)), query: q };
    const sort = index.kinds.taken === "date" ? "-taken" : undefined;
    return { ...(await complete(index, await index.browse("", { ...options, sort }), offset, options.k)), query: q };
  });

/** Let the files of this site be kept, so that it opens without network. */
async function keep() {
  await navigator.serviceWorker.register("sw.js");
  const { active } = await navigator.serviceWorker.ready;
  active.postMessage(navigator.connection?.saveData ? "opened" : "all");
}

if ("serviceWorker" in navigator) opened.then(() => setTimeout(() => keep().catch(() => {}), KEEP_AFTER)).catch(() => {});
