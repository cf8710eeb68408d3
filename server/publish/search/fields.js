// The typed fields of images: filters, facets, and orders; dates as filters name them.

import { Bytes, inflated, parsed } from "./files.js";
import { columnOf, conditionsOf, FilterError, parseFilter } from "./filter.js";
import { compared } from "./words.js";

export { FilterError };

/** @import { Condition, Filter } from "./filter.js" */
/** @import { Source } from "./files.js" */
/** @import { About } from "./index.js" */

/**
 * The values of a field; an image may have none, one or many.
 * @typedef {{kind: string, counts: Uint32Array, words: string[], folded: string[],
 *   values: Uint32Array | Float64Array | BigInt64Array | Uint8Array}} Column
 *   `counts` by image; `values` of a keyword are places in `words`, of points pairs
 * @typedef {{value: string | number | boolean, count: number}} Bucket
 */

const EARTH = 6371008.8; // metres, the mean radius
const MOST = 100; // values of a facet
const TRUTHS = /** @type {Record<string, number>} */ ({ true: 1, yes: 1, 1: 1, false: 0, no: 0, 0: 0 });
const PIECE = /[\p{L}\p{N}]+/gu;
const FLOAT = /^[-+]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:[eE][-+]?\d+(?:_\d+)*)?$/;

/** Lower case as a filter compares it, letter by letter. @param {string} text */
const folded = (text) => [...text.normalize()].map((letter) => [...letter.toLowerCase()][0]).join("");

/** Which words match a value. @param {string[]} words in lower case @param {string} value @param {"value" | "text" | "prefix"} mode */
function matching(words, value, mode) {
  const wanted = folded(value);
  if (mode === "value") return words.map((word) => word === wanted);
  if (mode === "prefix") return words.map((word) => word.startsWith(wanted));
  const pieces = wanted.match(PIECE);
  if (!pieces) return words.map((word) => word.includes(wanted));
  const run = pieces.join("[^\\p{L}\\p{N}]+");
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])${run}(?![\\p{L}\\p{N}])`, "u");
  return words.map((word) => pattern.test(word));
}

export class Fields {
  /** @param {Source} source @param {About} about */
  constructor(source, { fields, images }) {
    this.source = source;
    this.about = fields;
    this.images = images;
    /** @type {Map<string, Promise<Column>>} */
    this.columns = new Map();
  }

  /** @param {string} name @param {number} [column] of a filter */
  #column(name, column) {
    if (!Object.hasOwn(this.about, name)) {
      throw new FilterError(`no image has the field '${name.slice(0, 60)}'; there is ${Object.keys(this.about).sort().join(", ")}`, column);
    }
    let found = this.columns.get(name);
    if (!found) this.columns.set(name, (found = this.#read(...this.about[name])));
    return found;
  }

  /** @param {string} kind @param {string} file @returns {Promise<Column>} */
  async #read(kind, file) {
    const bytes = new Bytes(await inflated(await this.source.whole(file)));
    const words = parsed(bytes.part()) ?? [];
    const counts = new Bytes(bytes.part()).numbers(this.images);
    const packed = bytes.part();
    const total = counts.reduce((sum, one) => sum + one, 0);
    const aligned = () => packed.slice().buffer;
    const values =
      kind === "keyword" ? new Bytes(packed).numbers(total)
      : kind === "boolean" ? packed
      : kind === "date" ? new BigInt64Array(aligned())
      : new Float64Array(aligned());
    return { kind, counts, words, folded: words.map(folded), values };
  }

  /** The images that a filter lets through, 1 for each. @param {string} text */
  async allowed(text) {
    const whole = parseFilter(text);
    const conditions = conditionsOf(whole);
    const columns = await Promise.all(conditions.map(({ field, at }) => this.#column(field, columnOf(text, at))));
    const known = new Map(conditions.map(({ field }, i) => [field, columns[i]]));
    return this.#evaluated(whole, known, text);
  }

  /** @param {Filter} one @param {Map<string, Column>} known @param {string} text @returns {Uint8Array} */
  #evaluated(one, known, text) {
    if (one.kind === "not") return this.#evaluated(one.part, known, text).map((flag) => 1 - flag);
    if (one.kind === "all" || one.kind === "any") {
      const [first, ...others] = one.parts.map((part) => this.#evaluated(part, known, text));
      for (const other of others) {
        for (let i = 0; i < first.length; i++) first[i] = one.kind === "all" ? first[i] & other[i] : first[i] | other[i];
      }
      return first;
    }
    const column = /** @type {Column} */ (known.get(one.field));
    if (one.kind === "empty") return Uint8Array.from(column.counts, (count) => Number(!count));
    const chosen = chooser(one, column, (reason) => {
      const name = one.field.slice(0, 60);
      return new FilterError(`${name} is a field of kind ${column.kind}: it ${reason}`, columnOf(text, one.at));
    });
    const found = new Uint8Array(this.images);
    let value = 0;
    for (let image = 0; image < this.images; image++) {
      for (const end = value + column.counts[image]; value < end; value++) if (chosen(value)) found[image] = 1;
    }
    return found;
  }

  /** How many of some images have each value of a field, or a date in each period. @param {string} facet @param {Uint8Array} found @returns {Promise<Bucket[]>} */
  async counts(facet, found) {
    const [name, interval = ""] = facet.split(":");
    const column = await this.#column(name);
    const { kind, counts } = column;
    if (kind === "geo" || (kind === "date" ? !isInterval(interval) : interval)) {
      throw new FilterError(`facet ${facet.slice(0, 60)}: give a field, with :year, :month or :day for a date; ${name.slice(0, 60)} is of kind ${kind}`);
    }
    /** @type {Map<string | number | boolean, number>} */
    const totals = new Map();
    let value = 0;
    for (let image = 0; image < this.images; image++) {
      const end = value + counts[image];
      if (found[image]) {
        const own = new Set(Array.from({ length: end - value }, (_, i) => shown(column, value + i, interval)));
        for (const one of own) totals.set(one, (totals.get(one) ?? 0) + 1);
      }
      value = end;
    }
    const buckets = [...totals].map(([one, count]) => ({ value: one, count }));
    buckets.sort((a, b) => b.count - a.count || compared(`${a.value}`, `${b.value}`));
    const most = buckets.slice(0, MOST);
    return interval ? most.sort((a, b) => compared(`${a.value}`, `${b.value}`)) : most;
  }

  /** By what images are sorted, rising; infinite without a value. @param {string} sort a field, with a minus for the largest first */
  async keys(sort) {
    const falling = sort.startsWith("-");
    const { kind, counts, values } = await this.#column(sort.replace(/^-/, ""));
    if (kind === "geo") throw new FilterError(`sort ${sort.slice(0, 60)}: points have no order`);
    const keys = new Float64Array(this.images).fill(Infinity);
    let value = 0;
    for (let image = 0; image < this.images; image++) {
      for (const end = value + counts[image]; value < end; value++) {
        keys[image] = Math.min(keys[image], falling ? -Number(values[value]) : Number(values[value]));
      }
    }
    return keys;
  }
}

/** A value as facets name it. @param {Column} column @param {number} place @param {string} interval */
function shown({ kind, words, values }, place, interval) {
  if (kind === "keyword") return words[Number(values[place])];
  if (kind === "boolean") return values[place] === 1;
  return isInterval(interval) ? named(BigInt(values[place]), interval) : Number(values[place]);
}

/**
 * Says of a value's place whether it fulfils a condition.
 * @param {Exclude<Condition, {kind: "empty"}>} condition @param {Column} column @param {(reason: string) => FilterError} unfit
 * @returns {(place: number) => boolean}
 */
function chooser(condition, column, unfit) {
  const { kind, values } = column;
  if (condition.kind === "match") {
    if (kind === "geo" || (condition.mode === "prefix" && kind !== "keyword")) throw unfit("cannot be matched so");
    const tests = condition.values.map((value) => equal(condition.mode, value, column, unfit));
    return (place) => tests.some((test) => test(place));
  }
  if (condition.kind === "range") return within(condition, column, unfit);
  if (kind !== "geo") throw unfit("has no points");
  const point = (/** @type {number} */ place) => [Number(values[2 * place]), Number(values[2 * place + 1])];
  if (condition.kind === "radius") {
    return (place) => distance(point(place), [condition.lat, condition.lon]) <= condition.metres;
  }
  const { south, west, north, east } = condition;
  return (place) => {
    const [lat, lon] = point(place);
    const across = west <= east ? lon >= west && lon <= east : lon >= west || lon <= east;
    return lat >= south && lat <= north && across;
  };
}

/** @param {"value" | "text" | "prefix"} mode @param {string} value @param {Column} column @param {(reason: string) => FilterError} unfit @returns {(place: number) => boolean} */
function equal(mode, value, { kind, values, folded: words }, unfit) {
  if (kind === "keyword") {
    const found = matching(words, value, mode);
    return (place) => found[Number(values[place])];
  }
  if (kind === "number") {
    const wanted = numberOf(value, unfit);
    return (place) => values[place] === wanted;
  }
  if (kind === "date") {
    const { start, end } = periodOf(value, unfit);
    return (place) => values[place] >= start && values[place] < end;
  }
  const truth = value.toLowerCase();
  if (!Object.hasOwn(TRUTHS, truth)) throw unfit(`is true or false, not '${value.slice(0, 60)}'`);
  return (place) => values[place] === TRUTHS[truth];
}

/** @param {import("./filter.js").Range} range @param {Column} column @param {(reason: string) => FilterError} unfit @returns {(place: number) => boolean} */
function within({ gt, gte, lt, lte }, { kind, values }, unfit) {
  if (kind !== "number" && kind !== "date") throw unfit("has no range; numbers and dates have");
  const number = kind === "number";
  const first = (/** @type {string} */ bound) => (number ? numberOf(bound, unfit) : periodOf(bound, unfit).start);
  const end = (/** @type {string} */ bound) => (number ? numberOf(bound, unfit) : periodOf(bound, unfit).end);
  /** @type {((value: number | bigint) => boolean)[]} */
  const tests = [];
  const test = (/** @type {string | undefined} */ bound, /** @type {(bound: string) => number | bigint} */ of, /** @type {(value: number | bigint, limit: number | bigint) => boolean} */ compare) => {
    if (bound === undefined) return;
    const limit = of(bound);
    tests.push((value) => compare(value, limit));
  };
  // A date after a period is one from its end on.
  test(gt, end, (value, limit) => (number ? value > limit : value >= limit));
  test(gte, first, (value, limit) => value >= limit);
  test(lt, first, (value, limit) => value < limit);
  test(lte, end, (value, limit) => (number ? value <= limit : value < limit));
  return (place) => tests.every((one) => one(values[place]));
}

/** @param {string} text @param {(reason: string) => FilterError} unfit */
function numberOf(text, unfit) {
  const plain = text.trim();
  if (FLOAT.test(plain)) return Number(plain.replaceAll("_", ""));
  const [, sign, name] = /^([-+]?)(inf|infinity|nan)$/i.exec(plain) ?? [];
  if (!name) throw unfit(`has numbers, '${text.slice(0, 60)}' is none`);
  return name.toLowerCase() === "nan" ? NaN : sign === "-" ? -Infinity : Infinity;
}

/** @param {string} text @param {(reason: string) => FilterError} unfit */
function periodOf(text, unfit) {
  const found = period(text);
  if (!found) throw unfit(`has dates such as 2024, 2024-06 or 2024-06-01T18:30, not '${text.slice(0, 60)}'`);
  return found;
}

/** Metres along the earth, by the haversine formula. @param {number[]} a @param {number[]} b */
function distance(a, b) {
  const [[phi, lam], [phi2, lam2]] = [a, b].map((point) => point.map((degrees) => (degrees * Math.PI) / 180));
  const height = Math.sin((phi - phi2) / 2) ** 2;
  const width = Math.sin((lam - lam2) / 2) ** 2;
  const share = height + Math.cos(phi) * Math.cos(phi2) * width;
  return 2 * EARTH * Math.asin(Math.sqrt(Math.min(1, Math.max(0, share))));
}

const WRITTEN =
  /^(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,6})\d*)?)?)?(?:Z|[+-]\d\d:?\d\d)?)?)?)?$/;
const LENGTHS = [86400e6, 3600e6, 60e6, 1e6]; // microseconds of a day, an hour, a minute and a second
const LAST_YEAR = 9999;

/** @param {number} year @param {number} month from 1 @param {number} day */
function startOf(year, month, day, hour = 0, minute = 0, second = 0) {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second);
  return BigInt(date.getTime()) * 1000n;
}

/** The period of a date, by the clock where the photo was taken; null if it is none. @param {string} text */
function period(text) {
  const written = WRITTEN.exec(text);
  if (!written) return null;
  const parts = written.slice(1, 7).filter((part) => part !== undefined).map(Number);
  const [year, month = 1, day = 1, hour = 0, minute = 0, second = 0] = parts;
  const days = new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate();
  if (!year || month < 1 || month > 12 || day < 1 || day > days || hour > 23 || minute > 59 || second > 59) return null;
  const start = startOf(year, month, day, hour, minute, second);
  const fraction = written[7];
  if (fraction) {
    const from = start + BigInt(fraction.padEnd(6, "0"));
    return { start: from, end: from + 10n ** BigInt(6 - fraction.length) };
  }
  if (parts.length === 1) return { start, end: startOf(year + 1, 1, 1) };
  if (parts.length === 2) return { start, end: month < 12 ? startOf(year, month + 1, 1) : startOf(year + 1, 1, 1) };
  const end = start + BigInt(LENGTHS[parts.length - 3]);
  const last = startOf(LAST_YEAR + 1, 1, 1);
  return { start, end: end < last ? end : last };
}

const LETTERS = { year: 4, month: 7, day: 10 };

/** @typedef {keyof typeof LETTERS} Interval */

/** @param {string} name @returns {name is Interval} */
const isInterval = (name) => Object.hasOwn(LETTERS, name);

/** The year, month or day of microseconds since 1970. @param {bigint} value @param {Interval} interval */
function named(value, interval) {
  const milliseconds = value / 1000n - (value < 0n && value % 1000n ? 1n : 0n);
  return new Date(Number(milliseconds)).toISOString().slice(0, LETTERS[interval]);
}
