// The words that an index holds: completions of a beginning, and corrections of a word.

/** @import { Terms } from "./postings.js" */

const ONE_EDIT = 3; // letters of a word from which it may have one
const TWO_EDITS = 6;
// A misspelt word is replaced by one of this length, by two edits only from the other on, or if its letters are the same.
const LEAST_LETTERS = 4;
const SURE_OF_TWO = 8;
const LIKELIER = 8; // times, that a letter is left out or swapped
const NEAREST = 3; // words that a misspelt one may stand for
const LAST_WORD = /[\p{L}\p{Nl}\p{No}]+$/u;

/** @typedef {{word: string, images: number, strength: number}} HeldWord `strength`: images × largest impact */

/** Order of code points, which is not that of UTF-16. @param {string} a @param {string} b */
export function compared(a, b) {
  const [left, right] = [[...a], [...b]];
  const at = left.findIndex((letter, i) => letter !== right[i]);
  if (at < 0) return left.length - right.length;
  return at < right.length ? (left[at].codePointAt(0) ?? 0) - (right[at].codePointAt(0) ?? 0) : 1;
}

export class HeldWords {
  /** @param {Map<string, number[]>} words with their pieces @param {Terms} terms @param {(word: string) => string} fold a typed word */
  constructor(words, terms, fold) {
    this.fold = fold;
    const least = (/** @type {number[]} */ pieces, /** @type {ArrayLike<number>} */ of) => Math.min(...pieces.map((id) => of[id]));
    /** @type {HeldWord[]} */
    this.words = [];
    for (const [word, pieces] of words) {
      const images = pieces.length ? least(pieces, terms.frequencies) : 0;
      if (images && /^\p{L}+$/u.test(word)) this.words.push({ word, images, strength: images * least(pieces, terms.largest) });
    }
    this.words.sort((a, b) => compared(a.word, b.word));
  }

  /** Queries of which the last word is completed, or corrected. @param {string} text @param {number} most */
  complete(text, most) {
    text = text.normalize();
    const last = LAST_WORD.exec(text);
    if (!last) return [];
    const beginning = this.fold(last[0]);
    const completed = this.words.filter(({ word }) => word.startsWith(beginning)).sort((a, b) => b.strength - a.strength);
    const found = completed.length ? completed.slice(0, most) : this.correct(last[0], most);
    return found.map(({ word, images }) => ({ text: text.slice(0, last.index) + word, word, images }));
  }

  /** The words nearest to one, the likeliest first. @param {string} word @param {number} most */
  correct(word, most) {
    const typed = [...this.fold(word)];
    const allowed = Number(typed.length >= ONE_EDIT) + Number(typed.length >= TWO_EDITS);
    for (let edits = 1; edits <= allowed; edits++) {
      const near = this.words.filter((held) => editsBetween(typed, [...held.word], edits) === edits);
      const missed = (/** @type {HeldWord} */ { word: own }) => [...own].length > typed.length || isReordered(typed, own);
      const likely = new Map(near.map((held) => [held, held.images * (missed(held) ? LIKELIER : 1)]));
      near.sort((a, b) => (likely.get(b) ?? 0) - (likely.get(a) ?? 0));
      if (near.length) return near.slice(0, most);
    }
    return [];
  }

  /** The word that was meant by a misspelt one, null unless that is likely enough. @param {string} word */
  corrected(word) {
    const typed = [...word];
    const likely = (/** @type {string[]} */ own) =>
      isReordered(typed, own.join("")) || (own.length >= LEAST_LETTERS && (typed.length >= SURE_OF_TWO || editsBetween(typed, own, 1) === 1));
    const found = this.correct(word, NEAREST).find((held) => likely([...held.word]));
    return found && [...found.word].length >= LEAST_LETTERS ? found.word : null; // "hte" is no misspelt "hate"
  }
}

const isReordered = (/** @type {string[]} */ typed, /** @type {string} */ other) => [...typed].sort().join("") === [...other].sort().join("");

/**
 * Letters to insert, remove or replace, or neighbours to swap; more than `most` counts as infinitely many.
 * @param {string[]} word @param {string[]} other @param {number} most
 */
function editsBetween(word, other, most) {
  if (Math.abs(word.length - other.length) > most) return Infinity;
  /** @type {number[]} */
  let before = [];
  let last = [0, ...other.map((_, j) => j + 1)];
  for (let i = 1; i <= word.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const replaced = last[j - 1] + Number(word[i - 1] !== other[j - 1]);
      row[j] = Math.min(last[j] + 1, row[j - 1] + 1, replaced);
      const swapped = i > 1 && j > 1 && word[i - 2] === other[j - 1] && word[i - 1] === other[j - 2];
      if (swapped) row[j] = Math.min(row[j], before[j - 2] + 1);
    }
    if (Math.min(...row) > most) return Infinity;
    [before, last] = [last, row];
  }
  return last[other.length];
}
