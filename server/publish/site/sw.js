// Keeps the files of a published site, so that it opens without network. What is before this is
// written by `sparta publish`: VERSION of the page, and the files of the PAGE.

const PAGE_CACHE = `sparta-page-${VERSION}`;
const FOLDER = new URL(registration.scope).pathname;
const INDEX_CACHE = `sparta-index-${FOLDER}`; // whole files of the newest index
const SEEN_CACHE = `sparta-seen-${FOLDER}`; // pictures, and parts of files; those used last are at the end
const SMALL = 16 * 2 ** 20; // bytes of an index that is kept as a whole
const MOST = 1000; // pictures and parts that are kept
const LARGEST = 2 ** 20; // bytes of one of them
const INDEX = new URL("index/index.json", registration.scope).href;

addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(caches.open(PAGE_CACHE).then((cache) => cache.addAll(PAGE.map((path) => new Request(path, { cache: "no-cache" })))));
});

addEventListener("activate", (event) => event.waitUntil(Promise.all([clients.claim(), forgetPages(), renewed().catch(() => {})])));

/** Remove the pages of this site that were published before. */
async function forgetPages() {
  const own = await caches.open(PAGE_CACHE);
  const [first] = await own.keys();
  for (const name of await caches.keys()) {
    if (!name.startsWith("sparta-page-") || name === PAGE_CACHE) continue;
    if (await (await caches.open(name)).match(first)) await caches.delete(name);
  }
}

let turn = Promise.resolve();

/** Change the caches in turn, so that nothing is kept that was forgotten meanwhile. */
function inTurn(task) {
  const done = turn.then(task);
  turn = done.catch(() => {});
  return done;
}

/** Fetch the newest index, and forget what it does not name. */
async function renew(request = new Request(INDEX, { cache: "no-cache" })) {
  const response = await fetch(request);
  const copy = response.clone();
  const forgotten = response.ok ? inTurn(() => replaceIndex(copy)) : Promise.resolve();
  return { response, forgotten };
}

const renewed = async () => (await renew()).forgotten;

let published; // what the newest index names, once it was read

async function replaceIndex(response) {
  const cache = await caches.open(INDEX_CACHE);
  await cache.put(INDEX, response);
  published = undefined;
  const { files } = await readPublished();
  for (const request of await cache.keys()) if (!files.has(request.url)) await cache.delete(request);
  const seen = await caches.open(SEEN_CACHE);
  for (const request of await seen.keys()) if (!(await isPublished(request.url))) await seen.delete(request);
}

const addressOf = (name) => new URL(name, INDEX).href;

async function readPublished() {
  const cache = await caches.open(INDEX_CACHE);
  const response = await cache.match(INDEX);
  if (!response) return { files: new Set() };
  const { words, terms, substitutes, spelling, fields, packs, pictures, bytes } = await response.json();
  const parts = Object.values(packs);
  const needed = [words, terms, substitutes, spelling, pictures?.names, ...Object.values(fields).map(([, file]) => file)];
  needed.push(...parts.map(({ directory }) => directory));
  const first = needed.filter(Boolean).map(addressOf);
  const packed = parts.flatMap(({ files }) => files.map(([name]) => addressOf(name)));
  return { files: new Set([INDEX, ...first, ...packed]), first, packed, bytes, pictures };
}

/** Whether the newest index has a file, a part of one, or the photo that a picture is of. */
async function isPublished(url) {
  published ??= readPublished();
  const { files, pictures } = await published;
  if (files.has(url.replace(/\?bytes=.*/, ""))) return true;
  const [, size, name, suffix] = url.slice(registration.scope.length).match(/^photos\/(\w+)-([0-9a-f]{16})(\.\w+)$/) ?? [];
  if (!name || !pictures?.names) return false;
  if (size === "original" ? !pictures.originals : !pictures.sizes.includes(Number(size)) || suffix !== pictures.suffix) return false;
  return isAmong(await (pictures.read ??= readNames(addressOf(pictures.names))), BigInt(`0x${name}`));
}

/** The names of all pictures, eight bytes each, rising. */
async function readNames(url) {
  const cache = await caches.open(INDEX_CACHE);
  if (!(await cache.match(url))) await cache.add(url);
  return new DataView(await (await cache.match(url)).arrayBuffer());
}

function isAmong(names, name) {
  let low = 0;
  for (let high = names.byteLength / 8; low < high; ) {
    const middle = (low + high) >> 1;
    if (names.getBigUint64(8 * middle) < name) low = middle + 1;
    else high = middle;
  }
  return low < names.byteLength / 8 && names.getBigUint64(8 * low) === name;
}

/** Keep the files that opening the index needs, or all if they are small. */
async function keepIndex(all) {
  await renewed();
  const { first, packed, bytes } = await readPublished();
  const cache = await caches.open(INDEX_CACHE);
  for (const url of [...first, ...(all && bytes <= SMALL ? packed : [])]) if (!(await cache.match(url))) await cache.add(url);
}

/** Keep a file, a part of one, or a picture as the one used last; forget the one not used for longest. */
async function keep(key, response) {
  if (!(await isPublished(key))) return;
  const content = await response.blob();
  const isWhole = (await published).files.has(key);
  if (!isWhole && content.size > LARGEST) return;
  const cache = await caches.open(isWhole ? INDEX_CACHE : SEEN_CACHE);
  await cache.put(key, new Response(content, { headers: response.headers }));
  if (isWhole) return;
  for (const request of (await cache.keys()).slice(0, -MOST)) await cache.delete(request);
}

addEventListener("message", (event) => event.waitUntil(keepIndex(event.data === "all")));

addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || !url.href.startsWith(registration.scope)) return;
  if (url.href === INDEX) event.respondWith(newest(event));
  else if (/\/(index|photos)\//.test(url.href.slice(registration.scope.length - 1))) event.respondWith(kept(event));
  else event.respondWith(page(request, url));
});

/** The page as it was when its files were kept, all of one version. */
async function page(request, url) {
  const cache = await caches.open(PAGE_CACHE);
  return (await cache.match(url.href, { ignoreSearch: true })) ?? fetch(request);
}

/** The newest answer, or the last one without network. */
async function newest(event) {
  try {
    const { response, forgotten } = await renew(event.request);
    event.waitUntil(forgotten);
    return response;
  } catch (error) {
    const last = await (await caches.open(INDEX_CACHE)).match(INDEX);
    if (last) return last;
    throw error;
  }
}

/** A file, a part of one, or a picture: such files never change. */
async function kept(event) {
  const { request } = event;
  const range = request.headers.get("Range")?.replace("=", "-").split("-").slice(1) ?? null;
  const whole = await (await caches.open(INDEX_CACHE)).match(request.url);
  if (whole) return range ? part(whole, range) : whole;
  const key = range ? `${request.url}?bytes=${range.join("-")}` : request.url;
  const found = await (await caches.open(SEEN_CACHE)).match(key);
  const response = found ?? (await fetch(request));
  if (response.ok) {
    const copy = response.clone();
    event.waitUntil(inTurn(() => keep(found || response.status === 206 ? key : request.url, copy)).catch(() => {}));
  }
  return found && range ? new Response(found.body, { status: 206, headers: found.headers }) : response;
}

async function part(whole, [first, last]) {
  const content = await whole.blob();
  return new Response(content.slice(Number(first), last ? Number(last) + 1 : content.size), { status: 206 });
}
