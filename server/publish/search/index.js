// Searches what `sparta publish` wrote, in the browser, exactly as the server does.
//
//   const index = await open("index/");
//   const { hits } = await index.search("two dogs on a beach", { k: 20 });

import { against, coverage, explained, having, termsOfWords, weights } from "./explanations.js";
import { inflated, Pack, parsed, Source } from "./files.js";
import { Finder } from "./finder.js";
import { OPERATORS, stripped } from "./grammar.js";
import { Lists, Terms } from "./postings.js";
import { Reader } from "./reader.js";
import { Ids, Records } from "./records.js";
import { Tokenizer } from "./tokenizer.js";

/** @import { Asked, TermAnswer } from "./explanations.js" */
/** @import { Bucket } from "./fields.js" */
/** @import { PackAbout } from "./files.js" */
/** @import { Found } from "./finder.js" */
/** @import { Sign } from "./grammar.js" */
/** @import { ReadQuery, ReadWord, Substitution } from "./reader.js" */
/** @import { HeldWords } from "./words.js" */

export { IndexError } from "./files.js";
export { QueryError } from "./grammar.js";

/**
 * What an index says of itself.
 * @typedef {{format: number, version: string, images: number, bits: number, superblock: number, chunk: number,
 *   record: number, words: string, terms: string, substitutes: string | null, spelling: string | null, examples: string[],
 *   fields: Record<string, [kind: string, file: string]>, packs: Record<string, PackAbout>}} About
 *
 * @typedef {{rank: number, image_id: string, score: number, metadata: Record<string, any>, photo: string | null,
 *   coverage: number | null, explanation: TermAnswer[] | null}} Hit
 * @typedef {{word: string, sign: Sign, images: number}} Condition
 * @typedef {{tokenise_ms: number, search_ms: number, total_ms: number, explain_ms: number | null}} Timings
 * @typedef {{hits: Hit[], unknown: string[], rare: string[], substitutions: Substitution[],
 *   conditions: Condition[], timings: Timings}} Answer by descending score, ties by image id
 * @typedef {Answer & {total: number, facets: Record<string, Bucket[]>}} Browsed with how many images match
 * @typedef {{k?: number, offset?: number, substitute?: boolean, minCoverage?: number, filter?: string,
 *   explain?: boolean, signal?: AbortSignal}} Options
 */

const FORMAT = 1;
const CORRECTED = 10; // unknown words
/** @type {ReadQuery} */
const NOTHING = { words: [], counts: new Map(), unknown: [], rare: [], substitutions: [], signed: [] };

/** An image that the index does not have. */
export class UnknownImageError extends Error {}

/** Open an index, @param {string | URL} folder relative to the page @returns {Promise<Index>} */
export async function open(folder) {
  const base = new URL(folder, globalThis.document?.baseURI ?? import.meta.url);
  const source = new Source(new URL(base.pathname.endsWith("/") ? base : `${base}/`));
  const about = /** @type {About} */ (parsed(await source.index()));
  if (about.format !== FORMAT) throw new Error(`the index has format ${about.format}, this script reads ${FORMAT}: publish it again`);
  const [words, terms] = await Promise.all([
    source.whole(about.words).then(inflated).then(parsed),
    source.whole(about.terms).then(inflated),
  ]);
  const tokenizer = words.pieces ? new (await import("./pieces.js")).PieceTokenizer(words) : new Tokenizer(words);
  return new Index(about, source, tokenizer, words, new Terms(terms, words.vocabulary.length, about));
}

export class Index {
  /**
   * @param {About} about @param {Source} source @param {Tokenizer} tokenizer
   * @param {import("./tokenizer.js").Words} words @param {Terms} terms
   */
  constructor(about, source, tokenizer, words, terms) {
    const pack = (/** @type {string} */ name, compressed = true) => {
      const made = new Pack(source, about.packs[name], compressed);
      if (name !== "ids") made.preload();
      return made;
    };
    this.about = about;
    this.source = source;
    this.vocabulary = tokenizer.vocabulary;
    this.terms = terms;
    this.lists = new Lists(terms, pack("postings"), about);
    this.finder = new Finder(about, this.lists, pack("bounds"), pack("ranks", false));
    this.records = new Records(pack("records"), about.record);
    this.finder.found = (positions) => void this.records.at(positions).catch(() => {});
    /** @type {Promise<import("./fields.js").Fields> | undefined} */
    this.fields = undefined;
    this.ids = new Ids(pack("ids"), Math.ceil(about.images / 256));
    const holds = (/** @type {number} */ term) => terms.frequencies[term] > 0;
    this.reader = new Reader(tokenizer, holds, () => this.#substitutes(), about.bits, words, (word) => this.#corrected(word));
    this.frequent = words.frequent;
    /** @type {Promise<Set<string>> | undefined} */
    this.correct = undefined;
    /** Of a term. @param {number} term */
    this.largestOf = (term) => terms.largest[term];
    /** @type {Promise<HeldWords> | undefined} */
    this.held = undefined;
    /** @type {Map<string, number>} positions of images that were read */
    this.seen = new Map();
  }

  /** Number of images. */
  get images() {
    return this.about.images;
  }

  /** The kind of each field. */
  get kinds() {
    return Object.fromEntries(Object.entries(this.about.fields).map(([name, [kind]]) => [name, kind]));
  }

  /** The fields, whose script is fetched by the first filter. */
  #fields() {
    return (this.fields ??= import("./fields.js").then(({ Fields }) => new Fields(this.source, this.about)));
  }

  /** @returns {Promise<import("./reader.js").Table>} */
  async #substitutes() {
    const { substitutes } = this.about;
    return substitutes ? parsed(await inflated(await this.source.whole(substitutes))) : {};
  }

  /** The word that was meant by one of several pieces, if that is misspelt. @param {string} word @returns {Promise<string | null>} */
  async #corrected(word) {
    const { spelling } = this.about;
    if (!spelling) return null;
    const read = async () => new Set([...this.frequent, ...parsed(await inflated(await this.source.whole(spelling)))]);
    return (await (this.correct ??= read())).has(word) ? null : (await this.#heldWords()).corrected(word);
  }

  /** The best images for a text. @param {string} query @param {Options} [options] @returns {Promise<Answer>} */
  async search(query, options = {}) {
    const { k = 10, offset = 0, substitute = true, minCoverage, explain = false, signal } = options;
    const start = performance.now();
    const read = await this.reader.read(query, { substitute });
    const tokenised = performance.now();
    const { allowed, conditions } = await this.#allowed(read, options);
    const found = (await this.finder.top(read.counts, k + offset, allowed)).slice(offset);
    const asked = explain ? termsOfWords(read.words) : null;
    const words = explain || minCoverage !== undefined ? read.words : null;
    return this.#answer({ found, offset, read, conditions, asked, words, start, tokenised, signal });
  }

  /**
   * All images that match a text or a filter: their number, facets, and a page in a field's order, by
   * default that of scores or ids.
   * @param {string} query @param {Options & {sort?: string, facets?: string[]}} [options] @returns {Promise<Browsed>}
   */
  async browse(query, options = {}) {
    const { k = 10, offset = 0, substitute = true, sort, facets = [], explain = false, signal } = options;
    const start = performance.now();
    const read = stripped(query) ? await this.reader.read(query, { substitute }) : NOTHING;
    const { allowed, conditions } = await this.#allowed(read, options);
    const sums = read === NOTHING ? null : await this.finder.sums(read.counts);
    const matching = (/** @type {number} */ position) => Number((!allowed || allowed[position] === 1) && (!sums || sums[position] > 0));
    const matched = Uint8Array.from({ length: this.images }, (_, position) => matching(position));
    const count = async (/** @type {string} */ facet) => [facet, await (await this.#fields()).counts(facet, matched)];
    const counted = await Promise.all(facets.map(count));
    const keys = sort ? await (await this.#fields()).keys(sort) : Float64Array.from(matched, (_, position) => -(sums?.[position] ?? 0));
    const positions = (await this.finder.first(matched, keys, offset + k)).slice(offset);
    const found = positions.map((position) => ({ position, score: sums?.[position] ?? 0 }));
    const words = sums && explain ? read.words : null;
    const asked = words && termsOfWords(words);
    const answer = await this.#answer({ found, offset, read, conditions, asked, words, start, tokenised: start, signal });
    return { ...answer, total: matched.reduce((sum, one) => sum + one, 0), facets: Object.fromEntries(counted) };
  }

  /**
   * The images most similar to one of the index, or to several, without these.
   * @param {string | string[]} imageId @param {Options & {words?: string}} [options]
   * @returns {Promise<Answer & {terms: {term: string, count: number}[]}>} `terms` is the query made of them
   */
  async similar(imageId, options = {}) {
    const { k = 10, words = "", explain = false, signal } = options;
    const start = performance.now();
    const positions = await Promise.all([...new Set([imageId].flat())].map((id) => this.#position(id)));
    const read = await this.reader.read(words, { excluding: true });
    const spoken = new Map([...read.counts].filter(([term]) => this.reader.holds(term)));
    const counts = imagesAndWords(await this.#impactsOf(positions), spoken);
    const tokenised = performance.now();
    const { allowed, conditions } = await this.#allowed({ ...read, words: [] }, options);
    const best = await this.finder.top(counts, k + positions.length, allowed);
    const found = best.filter(({ position }) => !positions.includes(position)).slice(0, k);
    const asked = [...counts].map(([id, count]) => ({ id, word: this.vocabulary[id], count, similarity: null, sign: /** @type {Sign} */ ("") }));
    const answer = await this.#answer({ found, read, conditions, asked: explain ? asked : null, words: null, start, tokenised, signal });
    return { ...answer, terms: asked.map(({ word, count }) => ({ term: word, count })) };
  }

  /** Why an image has its score for a text. @param {string} query @param {string} imageId */
  async explain(query, imageId) {
    const { words } = await this.reader.read(query, { excluding: true });
    const [image] = await this.#records([await this.#position(imageId)]);
    const terms = explained(image, termsOfWords(words), this.vocabulary);
    return {
      image_id: imageId,
      score: terms.reduce((sum, term) => sum + term.score, 0),
      terms,
      coverage: coverage(words, image, this.largestOf),
      against: against(words, image, this.largestOf),
    };
  }

  /** What the index knows of an image. @param {string} imageId */
  async image(imageId) {
    const [{ id, metadata, photo }] = await this.#records([await this.#position(imageId)]);
    return { image_id: id, metadata, photo };
  }

  /** Queries whose last word is completed to words of the index. @param {string} text @param {number} [most] */
  async complete(text, most = 10) {
    return (await this.#heldWords()).complete(text, most);
  }

  /** The words of the index that are spelled most like some. @param {string[]} words @param {number} [most] */
  async corrections(words, most = 3) {
    if (!words.length) return [];
    const held = await this.#heldWords();
    const nearest = words.slice(0, CORRECTED).map((word) => ({ word, words: held.correct(word, most).map((one) => one.word) }));
    return nearest.filter((one) => one.words.length);
  }

  /** The words of the index, whose script is fetched when first needed. @returns {Promise<HeldWords>} */
  #heldWords() {
    const read = async () => {
      const words = new Map(this.frequent.map((word) => [word, this.reader.spoken(this.reader.tokenizer.words(word))]));
      for (const [id, word] of this.vocabulary.entries()) words.set(word, [id]);
      const { HeldWords } = await import("./words.js");
      return new HeldWords(words, this.terms, this.reader.tokenizer.fold);
    };
    return (this.held ??= read());
  }

  /** @param {number[]} positions */
  async #records(positions) {
    const images = await this.records.at(positions);
    for (const [i, { id }] of images.entries()) this.seen.set(id, positions[i]);
    return images;
  }

  /** @param {string} imageId */
  async #position(imageId) {
    const position = this.seen.get(imageId) ?? (await this.ids.position(imageId));
    if (position === undefined) throw new UnknownImageError(`the index has no image ${imageId}`);
    return position;
  }

  /** The impacts of some images, added, by rising term. @param {number[]} positions */
  async #impactsOf(positions) {
    /** @type {Map<number, number>} */
    const added = new Map();
    for (const image of await this.#records(positions)) {
      for (const [term, { impact }] of image.terms) added.set(term, (added.get(term) ?? 0) + impact);
    }
    return new Map([...added].sort(([a], [b]) => a - b)); // which decides between equal impacts
  }

  /** Which images have a word. @param {ReadWord} word */
  async #having({ terms }) {
    const unique = [...new Set(terms)];
    return having(await this.lists.read(unique), unique.map(this.largestOf), this.images);
  }

  /**
   * The images that a filter lets through, that have what they must and lack what they must not.
   * @param {ReadQuery} read @param {Options} options @returns {Promise<{allowed: Uint8Array | null, conditions: Condition[]}>}
   */
  async #allowed({ signed, words }, { filter, minCoverage }) {
    let allowed = filter ? await (await this.#fields()).allowed(filter) : null;
    const having = await Promise.all(signed.map((word) => this.#having(word)));
    const conditions = signed.map(({ text, sign }, i) => {
      const [own, before] = [having[i], allowed];
      const { required } = OPERATORS[sign];
      const wanted = Number(required);
      if (required !== null) allowed = own.map((one, position) => Number(one === wanted && (!before || before[position])));
      return { word: text, sign, images: own.reduce((sum, one) => sum + one, 0) };
    });
    return { allowed: minCoverage ? await this.#covering(words, minCoverage, allowed) : allowed, conditions };
  }

  /** The images with at least some coverage. @param {ReadWord[]} words @param {number} least @param {Uint8Array | null} allowed */
  async #covering(words, least, allowed) {
    const shares = new Float64Array(this.images);
    for (const [i, weight] of weights(words, this.largestOf).entries()) {
      if (!weight) continue;
      const found = await this.#having(words[i]);
      for (let position = 0; position < found.length; position++) shares[position] += weight * found[position];
    }
    return Uint8Array.from(shares, (share, position) => Number(share >= least - 1e-9 && (!allowed || allowed[position])));
  }

  /**
   * An answer with the images that were found, each explained by what was `asked`, and with its coverage of `words`.
   * @param {{found: Found[], offset?: number, read: ReadQuery, conditions: Condition[], asked: Asked[] | null,
   *   words: ReadWord[] | null, start: number, tokenised: number, signal?: AbortSignal}} made @returns {Promise<Answer>}
   */
  async #answer({ found, offset = 0, read, conditions, asked, words, start, tokenised, signal }) {
    const images = await this.#records(found.map(({ position }) => position));
    signal?.throwIfAborted();
    const searched = performance.now();
    const hits = found.map(({ score }, i) => ({
      rank: offset + i + 1,
      image_id: images[i].id,
      score,
      metadata: images[i].metadata,
      photo: images[i].photo,
      coverage: words && coverage(words, images[i], this.largestOf),
      explanation: asked && explained(images[i], asked, this.vocabulary),
    }));
    const timings = {
      tokenise_ms: tokenised - start,
      search_ms: searched - tokenised,
      total_ms: searched - start,
      explain_ms: asked && performance.now() - searched,
    };
    const { unknown, rare, substitutions } = read;
    return { hits, unknown, rare, substitutions, conditions, timings };
  }
}

const TERMS = 10;
const COUNTS = 256; // what counts add up to at most

/** @typedef {Map<number, number>} Weights of terms */

/** @param {Weights} weights @param {number} counts @returns {Weights} */
function shares(weights, counts) {
  const total = [...weights.values()].reduce((sum, one) => sum + one, 0);
  const own = [...weights].map(([term, weight]) => /** @type {[number, number]} */ ([term, Math.floor((weight * counts) / total)]));
  return new Map(own.filter(([, share]) => share));
}

/**
 * The query for images similar to some, and to words as well; both have half of the weight.
 * @param {Weights} impacts of all terms of the images, added, in an order that breaks ties @param {Weights} words terms with their counts
 */
function imagesAndWords(impacts, words) {
  const counts = words.size ? COUNTS / 2 : COUNTS;
  const strongest = [...impacts].sort((a, b) => b[1] - a[1]).slice(0, TERMS);
  const query = shares(new Map(strongest), counts);
  for (const [term, share] of shares(words, counts)) query.set(term, (query.get(term) ?? 0) + share);
  return new Map([...query].sort((a, b) => b[1] - a[1]));
}
