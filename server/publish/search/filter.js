// Filters as text, as docs/queries.md has them: `taken:2024-06..2024-08 camera:canon -folder:raw`.

import { SPACES } from "./grammar.js";

/**
 * A condition on a field at a place of the text, or conditions combined.
 * @typedef {{field: string, at: number}} On
 * @typedef {{gt?: string, gte?: string, lt?: string, lte?: string}} Bounds
 * @typedef {On & {kind: "match", values: string[], mode: "value" | "text" | "prefix"}} Match
 * @typedef {On & {kind: "range"} & Bounds} Range
 * @typedef {On & {kind: "radius", lat: number, lon: number, metres: number}} Radius
 * @typedef {On & {kind: "box", south: number, west: number, north: number, east: number}} Box
 * @typedef {On & {kind: "empty"}} Empty
 * @typedef {Match | Range | Radius | Box | Empty} Condition
 * @typedef {{kind: "all", parts: Filter[]} | {kind: "any", parts: Filter[]} | {kind: "not", part: Filter} | Condition} Filter
 */

const MAX_LENGTH = 2000; // characters
const MAX_DEPTH = 10; // of filters within filters
const MAX_CONDITIONS = 100;
const EXAMPLE = "such as camera:canon or taken:2024-06..2024-08";
const sticky = (/** @type {string} */ pattern) => new RegExp(pattern, "uy");
const SPACE = sticky(`[${SPACES}]*`);
const QUOTED = sticky('"((?:[^"\\\\]|\\\\["\\\\])*)"');
const NAME = sticky(`[^${SPACES}"():|=<>*~\\-][^${SPACES}"():|=<>*~]*`);
// A word ends before a range's dots, and before a star that ends the item.
const WORD = sticky(`(?:(?!\\.\\.|\\*(?=[${SPACES}()|]|$))[^${SPACES}"()|])+`);
const COMPARISON = sticky("[<>]=?");
const NUMBER = "[-+]?\\d+(?:\\.\\d+)?";
const POINT = new RegExp(`^(${NUMBER}),(${NUMBER})$`);
const CIRCLE = sticky(`(${NUMBER}),(${NUMBER})~(\\d+(?:\\.\\d+)?)(k?m)`);
const BOUNDS = /** @type {Record<string, keyof Bounds>} */ ({ ">": "gt", ">=": "gte", "<": "lt", "<=": "lte" });

/** A filter that cannot be read, or does not fit the fields; `column` counts characters from 1. */
export class FilterError extends Error {
  /** @param {string} reason @param {number} [column] */
  constructor(reason, column) {
    super(`filter${column ? `, column ${column}` : ""}: ${reason}`);
    this.name = "FilterError"; // for scripts that do without this one until there is a filter
    this.column = column;
  }
}

/** @param {Filter} part @returns {Filter} */
const negated = (part) => (part.kind === "not" ? part.part : { kind: "not", part });

/** The filters that one combines. @param {Filter} one */
const partsOf = (one) => (one.kind === "all" || one.kind === "any" ? one.parts : one.kind === "not" ? [one.part] : []);

/** All conditions, in order. @param {Filter} whole @returns {Condition[]} */
export function conditionsOf(whole) {
  if (whole.kind === "all" || whole.kind === "any" || whole.kind === "not") return partsOf(whole).flatMap(conditionsOf);
  return [whole];
}

/** Reads a text from left to right; `at` is the place of the next character. */
class Parser {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  whole() {
    const found = this.any(0);
    if (this.at < this.text.length) throw this.error("there is no ( that this ) closes");
    return found;
  }

  /** @param {number} depth @returns {Filter} */
  any(depth) {
    const parts = [this.all(depth)];
    while (this.atOr()) {
      this.at += 2;
      parts.push(this.all(depth));
    }
    return parts.length === 1 ? parts[0] : { kind: "any", parts };
  }

  atOr() {
    const after = this.text[this.at + 2];
    const ends = after === undefined || after === "(" || new RegExp(`[${SPACES}]`).test(after);
    return this.text.startsWith("OR", this.at) && ends;
  }

  /** @param {number} depth @returns {Filter} */
  all(depth) {
    const parts = [];
    this.matched(SPACE);
    while (this.at < this.text.length && this.text[this.at] !== ")" && !this.atOr()) {
      parts.push(this.part(depth));
      this.matched(SPACE);
    }
    if (!parts.length) throw this.error(`a condition is missing, ${EXAMPLE}`);
    return parts.length === 1 ? parts[0] : { kind: "all", parts };
  }

  /** @param {number} depth @returns {Filter} */
  part(depth) {
    if (depth > MAX_DEPTH) throw this.error(`more than ${MAX_DEPTH} levels`);
    if (this.took("-")) return negated(this.part(depth + 1));
    if (!this.took("(")) return this.condition();
    const opened = this.at;
    const found = this.any(depth + 1);
    if (!this.took(")")) throw this.error("there is no ) that closes this (", opened - 1);
    return found;
  }

  /** @returns {Filter} */
  condition() {
    const at = this.at;
    const field = this.text[at] === '"' ? this.quoted() : this.matched(NAME);
    if (!field || !this.took(":")) {
      throw this.error(`write field:value, ${EXAMPLE}; words to search for are the query`, at);
    }
    const items = [this.item({ field, at })];
    while (this.took("|")) items.push(this.item({ field, at }));
    return joined(items);
  }

  /** @param {On} on @returns {Filter} */
  item(on) {
    if (this.took("*")) return negated({ kind: "empty", ...on });
    if (this.took("=")) return { kind: "match", ...on, values: [this.operand()], mode: "value" };
    const comparison = this.matched(COMPARISON);
    if (comparison) return { kind: "range", ...on, [BOUNDS[comparison]]: this.operand() };
    if (this.took("..")) return { kind: "range", ...on, lte: this.operand() };
    CIRCLE.lastIndex = this.at;
    const circle = CIRCLE.exec(this.text);
    if (!circle) return this.value(on);
    this.at = CIRCLE.lastIndex;
    const [lat, lon, distance] = circle.slice(1, 4).map(Number);
    this.checkDegrees(on, [lat], [lon]);
    return { kind: "radius", ...on, lat, lon, metres: distance * (circle[4] === "km" ? 1000 : 1) };
  }

  /** @param {On} on @returns {Filter} */
  value(on) {
    const first = this.operand();
    if (this.took("*")) return { kind: "match", ...on, values: [first], mode: "prefix" };
    if (!this.took("..")) return { kind: "match", ...on, values: [first], mode: "text" };
    if (this.at === this.text.length || " )|\t\n".includes(this.text[this.at])) return { kind: "range", ...on, gte: first };
    const last = this.operand();
    const corners = [POINT.exec(first), POINT.exec(last)];
    if (!corners[0] || !corners[1]) return { kind: "range", ...on, gte: first, lte: last };
    const [[south, west], [north, east]] = corners.map((corner) => /** @type {RegExpExecArray} */ (corner).slice(1).map(Number));
    this.checkDegrees(on, [south, north], [west, east]);
    return { kind: "box", ...on, south, west, north, east };
  }

  /** Degrees are those of places on the earth. @param {On} on @param {number[]} lats @param {number[]} lons */
  checkDegrees({ at }, lats, lons) {
    const check = (/** @type {string} */ name, /** @type {number[]} */ degrees, /** @type {number} */ most) => {
      const wrong = degrees.find((one) => !(Math.abs(one) <= most));
      if (wrong !== undefined) throw this.error(`a ${name} is from -${most} to ${most} degrees, not ${wrong}`, at);
    };
    check("latitude", lats, 90);
    check("longitude", lons, 180);
  }

  operand() {
    if (this.text[this.at] === '"') return this.quoted();
    const found = this.matched(WORD);
    if (!found) throw this.error("a value is missing");
    return found;
  }

  quoted() {
    const at = this.at;
    const found = this.matched(QUOTED);
    if (!found) throw this.error('there is no " that closes this one', at);
    return found.slice(1, -1).replace(/\\([^])/g, "$1");
  }

  /** @param {RegExp} pattern */
  matched(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (!found) return "";
    this.at += found[0].length;
    return found[0];
  }

  /** @param {string} sign */
  took(sign) {
    if (!this.text.startsWith(sign, this.at)) return false;
    this.at += sign.length;
    return true;
  }

  /** @param {string} reason @param {number} [at] */
  error(reason, at = this.at) {
    return new FilterError(reason, columnOf(this.text, at));
  }
}

/** @param {string} text @param {number} at */
export const columnOf = (text, at) => [...text.slice(0, at)].length + 1;

/** Items between bars: one condition of many values where they are compared alike. @param {Filter[]} items @returns {Filter} */
function joined(items) {
  const [first] = items;
  if (items.length === 1) return first;
  const matches = items.filter((one) => one.kind === "match");
  const alike = first.kind === "match" && matches.length === items.length && matches.every(({ mode }) => mode === first.mode);
  return alike ? { ...first, values: matches.flatMap(({ values }) => values) } : { kind: "any", parts: items };
}

/** Read a filter. @param {string} text @returns {Filter} */
export function parseFilter(text) {
  const length = [...text].length;
  if (length > MAX_LENGTH) throw new FilterError(`${length} characters are too many; ${MAX_LENGTH} are allowed`);
  const whole = new Parser(text).whole();
  const found = conditionsOf(whole).length;
  if (found > MAX_CONDITIONS) throw new FilterError(`${found} conditions are too many; ${MAX_CONDITIONS} are allowed`);
  let depth = 0;
  for (let level = [whole]; level.length; level = level.flatMap(partsOf)) depth++;
  if (depth > MAX_DEPTH) throw new FilterError(`${depth} levels are too many; ${MAX_DEPTH} are allowed`);
  return whole;
}
