// The words that an index holds: completions of a beginning, and corrections of a word.

/** @import { Terms } from "./postings.js" */

const ONE_EDIT = 3; // letters of a word from which it may have one
const TWO_EDITS = 6;
const LAST_WORD = /[\p{L}\p{Nl}\p{No}]+$/u;

/** @typedef {{word: string, images: number}} HeldWord */

/** Order of code points, which is not that of UTF-16. @param {string} a @param {string} b */
export function compared(a, b) {
  const [left, right] = [[...a], [...b]];
  const at = left.findIndex((letter, i) => letter !== right[i]);
  if (at < 0) return left.length - right.length;
  return at < right.length ? (left[at].codePointAt(0) ?? 0) - (right[at].codePointAt(0) ?? 0) : 1;
}

export class HeldWords {
  /** @param {string[]} vocabulary @param {Terms} terms */
  constructor(vocabulary, terms) {
    const whole = vocabulary.map((word, id) => ({ word, images: terms.frequencies[id] }));
    /** @type {HeldWord[]} */
    this.words = whole.filter(({ word, images }) => images && /^\p{L}+$/u.test(word)).sort((a, b) => compared(a.word, b.word));
  }

  /** Queries of which the last word is completed, or corrected. @param {string} text @param {number} most */
  complete(text, most) {
    text = text.normalize();
    const last = LAST_WORD.exec(text);
    if (!last) return [];
    const beginning = last[0].toLowerCase();
    const completed = this.words.filter(({ word }) => word.startsWith(beginning)).sort((a, b) => b.images - a.images);
    const found = completed.length ? completed.slice(0, most) : this.correct(last[0], most);
    return found.map((one) => ({ text: text.slice(0, last.index) + one.word, ...one }));
  }

  /** The words nearest to one, first by edits, then by images. @param {string} word @param {number} most */
  correct(word, most) {
    const typed = [...word.toLowerCase()];
    const allowed = Number(typed.length >= ONE_EDIT) + Number(typed.length >= TWO_EDITS);
    if (!allowed) return [];
    const near = this.words
      .map((held) => ({ held, edits: editsBetween(typed, [...held.word], allowed) }))
      .filter(({ edits }) => edits > 0 && edits <= allowed);
    near.sort((a, b) => a.edits - b.edits || b.held.images - a.held.images);
    return near.slice(0, most).map(({ held }) => held);
  }
}

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
