// Reading queries: their terms, unknown and rare words, substitutes.

import { OPERATORS, parse, QueryError, searchable } from "./grammar.js";

/** @import { Clause, Sign } from "./grammar.js" */
/** @import { Tokenizer, Word } from "./tokenizer.js" */

const LARGEST_SCORE = 2 ** 24; // the server's engines count exactly below this

/**
 * @typedef {{word: string, term: string, similarity: number | null}} Substitution with null, of a misspelt word
 * @typedef {{text: string, terms: number[], known: boolean, substitution: Substitution | null,
 *   sign: Sign, times: number, clause: boolean}} ReadWord a word of a query: its terms are its pieces or its
 *   substitute; it is known if some image has one of its pieces and it was not replaced; `times` is 0 for an excluded word
 * @typedef {{words: ReadWord[], counts: Map<number, number>, unknown: string[], rare: string[],
 *   substitutions: Substitution[], signed: ReadWord[]}} ReadQuery
 * @typedef {Record<string, [number, number]>} Table of words with a substitute's term id and similarity
 */

/** Whether a word counts towards the score. @param {{sign: Sign}} word */
export const counts = ({ sign }) => OPERATORS[sign].counts;

export class Reader {
  /**
   * @param {Tokenizer} tokenizer
   * @param {(term: number) => boolean} holds whether some image has a term
   * @param {() => Promise<Table>} table of substitutes
   * @param {number} bits of an impact
   * @param {{rare: number[], functionWords: string[]}} words terms that training rarely saw; words without meaning for photos
   * @param {(word: string) => Promise<string | null>} corrected the word that was meant by one of several pieces, if that is misspelt
   */
  constructor(tokenizer, holds, table, bits, { rare, functionWords }, corrected) {
    this.functionWords = new Set(functionWords);
    this.corrected = corrected;
    this.tokenizer = tokenizer;
    this.holds = holds;
    this.table = table;
    this.rare = new Set(rare);
    this.mostCounts = Math.floor(LARGEST_SCORE / 2 ** bits);
  }

  /** @param {string} text @param {{substitute?: boolean, excluding?: boolean}} [options] `excluding`: it may only exclude */
  async read(text, { substitute = true, excluding = false } = {}) {
    const clauses = excluding ? parse(text) : searchable(text);
    const typed = clauses.flatMap((clause) => this.#words(clause));
    if (substitute) await this.#correct(typed);
    const words = typed.filter((word) => word.known || word.clause || !this.#isFunction(word));
    const lacking = words.filter((word) => !word.known);
    const unknown = lacking.filter((word) => counts(word) && !word.substitution);
    if (substitute && unknown.length) await this.#substitute(unknown);
    const read = this.#read(words, lacking);
    this.#checkCounts(text, clauses, read.counts);
    return read;
  }

  /** @param {Clause} clause @returns {ReadWord[]} */
  #words({ text, sign, weight, word }) {
    const found = this.tokenizer.words(text);
    if (!word) return found.map((one) => this.#word(one, "", 1));
    const whole = { text, pieces: this.spoken(found) };
    return [{ ...this.#word(whole, sign, OPERATORS[sign].counts ? weight : 0), clause: true }];
  }

  /** @param {Word} word @param {Sign} sign @param {number} times @returns {ReadWord} */
  #word({ text, pieces }, sign, times) {
    return { text, terms: pieces, known: pieces.some(this.holds), substitution: null, sign, times, clause: false };
  }

  /** The pieces with a letter or a digit; all of them if none has one. @param {Word[]} words */
  spoken(words) {
    const pieces = words.flatMap((word) => word.pieces);
    const spoken = pieces.filter((piece) => /[\p{L}\p{N}]/u.test(this.tokenizer.vocabulary[piece]));
    return spoken.length ? spoken : pieces;
  }

  /** Replace misspelt words. @param {ReadWord[]} words */
  async #correct(words) {
    const { vocabulary, ids, spell, fold } = this.tokenizer;
    for (const word of words) {
      if (!/^\p{L}+$/u.test(word.text) || this.#isFunction(word)) continue;
      const lower = spell(word.terms.map((piece) => vocabulary[piece]), "") || fold(word.text);
      if (ids.has(lower)) continue;
      const meant = await this.corrected(lower);
      if (meant === null) continue;
      word.substitution = { word: word.text, term: meant, similarity: null };
      word.terms = this.spoken(this.tokenizer.words(meant));
      word.known = false;
    }
  }

  /** @param {ReadWord[]} lacking */
  async #substitute(lacking) {
    const table = await this.table();
    for (const word of lacking) {
      const spelled = word.terms.map((piece) => this.tokenizer.vocabulary[piece]).join("");
      if (!Object.hasOwn(table, spelled)) continue;
      const [id, similarity] = table[spelled];
      word.terms = [id];
      word.substitution = { word: word.text, term: this.tokenizer.vocabulary[id], similarity };
    }
  }

  /** @param {ReadWord} word */
  #isFunction({ text }) {
    return this.functionWords.has(text.toLowerCase());
  }

  /** @param {ReadWord[]} words @param {ReadWord[]} lacking @returns {ReadQuery} */
  #read(words, lacking) {
    /** @type {Map<number, number>} */
    const times = new Map();
    for (const word of words) {
      if (word.times) for (const term of word.terms) times.set(term, (times.get(term) ?? 0) + word.times);
    }
    const searched = words.filter((word) => counts(word) && !this.#isFunction(word) && (word.known || word.substitution));
    const replaced = lacking.flatMap(({ substitution }) => substitution ?? []);
    return {
      words,
      counts: times,
      unknown: [...new Set(lacking.filter((word) => !word.substitution).map((word) => word.text))],
      rare: [...new Set(searched.filter((word) => word.terms.some((term) => this.rare.has(term))).map((word) => word.text))],
      substitutions: [...new Map(replaced.map((one) => [`${one.word}\n${one.term}`, one])).values()],
      signed: words.filter((word) => word.sign),
    };
  }

  /** @param {string} text @param {Clause[]} clauses @param {Map<number, number>} counts */
  #checkCounts(text, clauses, counts) {
    if ([...counts.values()].reduce((sum, count) => sum + count, 0) > this.mostCounts) {
      const problem = `words and weights add up to more than ${this.mostCounts}: use fewer`;
      throw new QueryError(problem, text, clauses.find((clause) => clause.weight > 1)?.at ?? 1);
    }
  }
}
