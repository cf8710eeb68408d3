// Keeps the files of a published site, so that it opens without network. What is before this is
// written by `sparta publish`: VERSION of the page, and the files of the PAGE.

const PAGE_CACHE = `sparta-page-${VERSION}`;
const INDEX_CACHE = `sparta-index-${new URL(registration.scope).pathname}`;
const SMALL = 16 * 2 ** 20; // bytes of an index that is kept as a whole
const INDEX = new URL("index/index.json", registration.scope).href;

addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(caches.open(PAGE_CACHE).then((cache) => cache.addAll(PAGE.map((path) => new Request(path, { cache: "no-cache" })))));
});

addEventListener("activate", (event) => event.waitUntil(Promise.all([clients.claim(), forgetPages()])));

/** Remove the pages of this site that were published before. */
async function forgetPages() {
  const own = await caches.open(PAGE_CACHE);
  const [first] = await own.keys();
  for (const name of await caches.keys()) {
    if (!name.startsWith("sparta-page-") || name === PAGE_CACHE) continue;
    if (await (await caches.open(name)).match(first)) await caches.delete(name);
  }
}

/** Keep the files that opening the index needs, or all if they are small; forget those of earlier ones. */
async function keepIndex(all) {
  const cache = await caches.open(INDEX_CACHE);
  const response = await fetch(INDEX, { cache: "no-cache" });
  if (!response.ok) return;
  await cache.put(INDEX, response.clone());
  const { words, terms, substitutes, fields, packs, bytes } = await response.json();
  const parts = Object.values(packs);
  const needed = [words, terms, substitutes, ...Object.values(fields).map(([, file]) => file), ...parts.map(({ directory }) => directory)];
  const packed = parts.flatMap(({ files }) => files.map(([name]) => name));
  const wanted = [...needed, ...(all && bytes <= SMALL ? packed : [])].filter(Boolean).map((name) => new URL(name, INDEX).href);
  const known = new Set([INDEX, ...[...needed, ...packed].filter(Boolean).map((name) => new URL(name, INDEX).href)]);
  for (const request of await cache.keys()) {
    const whole = request.url.replace(/\?bytes=.*/, "");
    if (whole.startsWith(new URL(".", INDEX).href) && !known.has(whole)) await cache.delete(request);
  }
  for (const url of wanted) if (!(await cache.match(url))) await cache.add(url);
}

addEventListener("message", (event) => event.waitUntil(keepIndex(event.data === "all")));

addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || !url.href.startsWith(registration.scope)) return;
  if (url.href === INDEX) event.respondWith(newest(request));
  else if (/\/(index|photos)\//.test(url.href.slice(registration.scope.length - 1))) event.respondWith(kept(request));
  else event.respondWith(page(request, url));
});

/** The page as it was when its files were kept, all of one version. */
async function page(request, url) {
  const cache = await caches.open(PAGE_CACHE);
  return (await cache.match(url.href, { ignoreSearch: true })) ?? fetch(request);
}

/** The newest answer, or the last one without network. */
async function newest(request) {
  const cache = await caches.open(INDEX_CACHE);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put(INDEX, response.clone());
    return response;
  } catch (error) {
    const last = await cache.match(INDEX);
    if (last) return last;
    throw error;
  }
}

/** A file, or a part of one: such files never change. */
async function kept(request) {
  const cache = await caches.open(INDEX_CACHE);
  const range = request.headers.get("Range")?.replace("=", "-").split("-").slice(1) ?? null;
  const whole = await cache.match(request.url);
  if (whole) return range ? part(whole, range) : whole;
  const key = range ? `${request.url}?bytes=${range.join("-")}` : request.url;
  const found = await cache.match(key);
  if (found) return new Response(found.body, { status: 206, headers: found.headers });
  const response = await fetch(request);
  if (response.status === 206) {
    const copy = response.clone();
    await cache.put(key, new Response(copy.body, { headers: copy.headers }));
  } else if (response.ok) await cache.put(request.url, response.clone());
  return response;
}

async function part(whole, [first, last]) {
  const content = await whole.blob();
  return new Response(content.slice(Number(first), last ? Number(last) + 1 : content.size), { status: 206 });
}
