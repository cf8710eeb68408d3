// Files of a published index, in part where the host answers range requests; bytes.

const PIECE = 4096; // chunks of a piece of a directory
const GAP = 8192; // bytes that are fetched needlessly rather than with a request of their own
const KEPT = 1 << 26; // bytes of chunks in memory

/** A file of the index that could not be read. */
export class IndexError extends Error {}

/** The folder of an index. */
export class Source {
  /** @param {URL} base */
  constructor(base) {
    this.base = base;
    /** Whether the host answers range requests; unknown until an answer says it. @type {boolean | null} */
    this.ranges = null;
    /** The first request for a part, where no answer said it before. @type {Promise<unknown> | undefined} */
    this.first = undefined;
    /** @type {Map<string, Promise<Uint8Array>>} */
    this.files = new Map();
  }

  /** @param {string} name @param {RequestInit} [options] */
  async #bytes(name, options) {
    const url = new URL(name, this.base);
    const response = await fetch(url, options).catch(() => {
      throw new IndexError(`${url.pathname} cannot be fetched: is this device offline?`);
    });
    if (!response.ok) throw new IndexError(`${url.pathname} cannot be fetched: status ${response.status}`);
    if (response.headers.get("Accept-Ranges") === "bytes") this.ranges = true;
    return { status: response.status, bytes: new Uint8Array(await response.arrayBuffer()) };
  }

  /** The file that names all others, asked for anew every time. */
  async index() {
    return (await this.#bytes("index.json", { cache: "no-cache" })).bytes;
  }

  /** A whole file. @param {string} name */
  whole(name) {
    let found = this.files.get(name);
    if (!found) {
      found = this.#bytes(name).then(({ bytes }) => bytes);
      found.catch(() => this.files.delete(name));
      this.files.set(name, found);
    }
    return found;
  }

  /** A part of a file, @param {string} name @param {number} start @param {number} end */
  async part(name, start, end) {
    // Nothing to wait for is not awaited: calls of one moment would all become the first one.
    if (this.ranges === null && this.first) await this.first.catch(() => {});
    if (this.ranges === false || this.files.has(name)) return (await this.whole(name)).subarray(start, end);
    const found = this.#range(name, start, end);
    if (this.ranges === null) this.first = found;
    return found;
  }

  /** @param {string} name @param {number} start @param {number} end */
  async #range(name, start, end) {
    // Browsers let requests for one file that may be cached wait for each other.
    const options = /** @type {RequestInit} */ ({ headers: { Range: `bytes=${start}-${end - 1}` }, cache: "no-store" });
    const { status, bytes } = await this.#bytes(name, options);
    this.ranges = status === 206;
    if (!this.ranges) this.files.set(name, Promise.resolve(bytes));
    const found = this.ranges ? bytes : bytes.subarray(start, end);
    if (found.length !== end - start) throw new IndexError(`${name} is shorter than the index says: publish it again`);
    return found;
  }
}

/**
 * Chunks in some files, with a directory of their lengths in pieces.
 * @typedef {{files: [string, number][], directory: string, pieces: number[]}} PackAbout
 */
export class Pack {
  /** @param {Source} source @param {PackAbout} about @param {boolean} [compressed] */
  constructor(source, about, compressed = true) {
    this.source = source;
    this.about = about;
    this.compressed = compressed;
    /** @type {Promise<Float64Array>[]} */
    this.pieces = [];
    /** @type {Map<number, Promise<Uint8Array>>} */
    this.chunks = new Map();
    this.kept = 0; // bytes
  }

  /** Where the chunks of a piece end, from its first one on. @param {number} number */
  #piece(number) {
    return (this.pieces[number] ??= this.#readPiece(number));
  }

  /** @param {number} number */
  async #readPiece(number) {
    const { directory, pieces } = this.about;
    const start = pieces.slice(0, number).reduce((sum, one) => sum + one, 0);
    const packed =
      pieces.length === 1 ? await this.source.whole(directory) : await this.source.part(directory, start, start + pieces[number]);
    const bytes = new Bytes(await inflated(packed));
    const ends = [];
    for (let end = 0; bytes.left; ends.push(end)) end += bytes.number();
    return Float64Array.from(ends);
  }

  /** Begin to read the directory, if that is little. */
  preload() {
    if (this.about.pieces.length === 1) this.#piece(0).catch(() => this.pieces.pop());
  }

  /** The bytes of the chunks from one to before another. @param {number} first @param {number} end */
  async length(first, end) {
    let sum = 0;
    for (let at = first; at < end; ) {
      const piece = Math.floor(at / PIECE);
      const ends = await this.#piece(piece);
      const stop = Math.min(end, (piece + 1) * PIECE) - piece * PIECE;
      sum += ends[stop - 1] - (at % PIECE ? ends[(at % PIECE) - 1] : 0);
      at = piece * PIECE + stop;
    }
    return sum;
  }

  /** @param {number} chunk */
  async #place(chunk) {
    const { files } = this.about;
    let low = 0;
    for (let high = files.length; high - low > 1; ) {
      const middle = (low + high) >> 1;
      if (files[middle][1] <= chunk) low = middle;
      else high = middle;
    }
    const [name, first] = files[low];
    const start = await this.length(first, chunk);
    return { chunk, name, start, end: start + (await this.length(chunk, chunk + 1)) };
  }

  /** The content of some chunks, those near each other with one request. @param {number[]} numbers */
  async read(numbers) {
    const wanted = [...new Set(numbers)].filter((one) => !this.chunks.has(one)).sort((a, b) => a - b);
    if (wanted.length) this.#fetch(wanted);
    const found = await Promise.all(numbers.map((one) => this.chunks.get(one) ?? new Uint8Array()));
    this.#forget(numbers);
    return found;
  }

  /** @param {number[]} wanted rising */
  #fetch(wanted) {
    const runs = Promise.all(wanted.map((one) => this.#place(one))).then((places) => this.#runs(places));
    for (const chunk of wanted) {
      const content = runs.then((found) => this.#content(/** @type {Place} */ (found.get(chunk))));
      content.catch(() => this.chunks.delete(chunk));
      this.chunks.set(chunk, content);
    }
  }

  /**
   * The places of chunks, each with the request that fetches it.
   * @typedef {{name: string, start: number, end: number, bytes?: Promise<Uint8Array>}} Run
   * @typedef {{chunk: number, name: string, start: number, end: number, run?: Run}} Place
   * @param {Place[]} places rising
   */
  #runs(places) {
    /** @type {Run | undefined} */
    let run;
    for (const place of places) {
      const { name, start, end } = place;
      if (!run || name !== run.name || start > run.end + GAP) run = { name, start, end };
      run.end = end;
      place.run = run;
    }
    return new Map(places.map((place) => [place.chunk, place]));
  }

  /** @param {Place} place */
  async #content({ start, end, run }) {
    if (start === end || !run) return new Uint8Array();
    run.bytes ??= this.source.part(run.name, run.start, run.end);
    const packed = (await run.bytes).subarray(start - run.start, end - run.start);
    const bytes = this.compressed ? await inflated(packed) : packed;
    this.kept += bytes.length;
    return bytes;
  }

  /** Forget chunks read long ago, but none of these. @param {number[]} numbers */
  #forget(numbers) {
    if (this.kept <= KEPT) return;
    for (const one of numbers) {
      const content = this.chunks.get(one);
      if (!content) continue;
      this.chunks.delete(one);
      this.chunks.set(one, content); // the last ones in the order of the map
    }
    const old = [...this.chunks.keys()].slice(0, Math.floor(this.chunks.size / 2));
    for (const one of old) if (!numbers.includes(one)) this.chunks.delete(one);
    this.kept = KEPT / 2;
  }
}

const UTF8 = new TextDecoder();

/** Reads bytes from front to back. */
export class Bytes {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  get left() {
    return this.bytes.length - this.at;
  }

  /** A number in LEB128: seven bits a byte, the lowest first. */
  number() {
    let found = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.bytes[this.at++];
      found += (byte & 127) * scale;
      if (byte < 128) return found;
    }
  }

  /** @param {number} count */
  numbers(count) {
    const found = new Uint32Array(count);
    for (let i = 0; i < count; i++) found[i] = this.number();
    return found;
  }

  /** A part of the bytes, @param {number} length */
  take(length) {
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  /** A part that begins with its length. */
  part() {
    return this.take(this.number());
  }
}

/** @param {Uint8Array} bytes */
export const parsed = (bytes) => JSON.parse(UTF8.decode(bytes));

/** The content of a raw deflate stream, @param {Uint8Array} bytes */
export async function inflated(bytes) {
  const blob = new Blob([/** @type {Uint8Array<ArrayBuffer>} */ (bytes)]);
  const stream = blob.stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
