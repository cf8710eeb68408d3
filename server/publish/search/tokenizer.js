// Word pieces of a text, as BERT's tokenizers find them, by tables of the index.

/**
 * @typedef {[number, number][]} Runs first and last characters, rising
 * @typedef {{dropped: Runs, spaced: Runs, changed: string, into: string[], hangul: boolean,
 *   spaces: Runs, signs: Runs}} Characters
 * @typedef {{vocabulary: string[], special: string[], longest: number, characters: Characters,
 *   rare: number[], frequent: string[], functionWords: string[], pieces?: import("./pieces.js").Pieces}} Words
 * @typedef {{text: string, pieces: number[]}} Word a word as it was typed, and its pieces' term ids
 */

/** @param {Runs} runs @param {number} code */
function isIn(runs, code) {
  let low = 0;
  for (let high = runs.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (runs[middle][1] < code) low = middle + 1;
    else high = middle;
  }
  return low < runs.length && runs[low][0] <= code;
}

/** @template Value @param {(char: string) => Value} find */
function remembered(find) {
  /** @type {Map<string, Value>} */
  const known = new Map();
  return (/** @type {string} */ char) => {
    let found = known.get(char);
    if (found === undefined) known.set(char, (found = find(char)));
    return found;
  };
}

// Marks on a letter are in an order of their own, which those of Hangul's tones, that stay, show.
const inOrder = (/** @type {string} */ text) => text.replace(/\p{M}{2,}/gu, (marks) => (/[\u302e\u302f]/.test(marks) ? marks.normalize("NFD") : marks));

/** Text of terms, @param {string[]} terms */
export const joined = (terms, space = " ") => terms.join(space).replaceAll(`${space}##`, "").replaceAll(`##${space}`, "");

const codeOf = (/** @type {string} */ char) => char.codePointAt(0) ?? 0;

export class Tokenizer {
  /** @param {Words} words */
  constructor({ vocabulary, special, longest, characters }) {
    this.vocabulary = vocabulary;
    this.longest = longest;
    this.ids = new Map(vocabulary.map((term, id) => [term, id]));
    this.special = new Set(special.map((term) => this.ids.get(term)));
    const spelled = [...special].sort((a, b) => b.length - a.length).map((term) => term.replace(/[[\]\\^$.*+?(){}|]/g, "\\$&"));
    this.spelled = spelled.length ? new RegExp(`(${spelled.join("|")})`) : /(?!)/;
    const changed = new Map([...characters.changed].map((char, i) => [char, characters.into[i]]));
    const isSyllable = (/** @type {string} */ char) => characters.hangul && char >= "\uac00" && char <= "\ud7a3";
    /** What takes the place of a character. */
    this.cleaned = remembered((char) => {
      if (isIn(characters.dropped, codeOf(char))) return "";
      if (isIn(characters.spaced, codeOf(char))) return ` ${char} `;
      return changed.get(char) ?? (isSyllable(char) ? char.normalize("NFD") : char);
    });
    this.fold = (/** @type {string} */ text) => (this.cleaned("A") === "a" ? text.toLowerCase() : text);
    this.spell = joined;
    /** @type {(char: string) => "space" | "sign" | "letter"} */
    this.kind = remembered((char) => {
      if (isIn(characters.spaces, codeOf(char))) return "space";
      return isIn(characters.signs, codeOf(char)) ? "sign" : "letter";
    });
  }

  /** The words of a text in order; one that the vocabulary lacks has no pieces. @param {string} text @returns {Word[]} */
  words(text) {
    const parts = text.toWellFormed().split(this.spelled);
    return parts.flatMap((part, i) => (i % 2 ? [{ text: part, pieces: [] }] : this.plain(part)));
  }

  /** The words of a text that spells no special token. @param {string} text */
  plain(text) {
    /** @type {{start: number, end: number, letters: string[]}[]} */
    const found = [];
    let open = false;
    let at = 0;
    for (const char of inOrder(text)) {
      const end = at + char.length;
      for (const letter of this.cleaned(char)) {
        const kind = this.kind(letter);
        if (kind === "letter" && open) {
          const word = found[found.length - 1];
          word.letters.push(letter);
          word.end = end;
        } else if (kind !== "space") found.push({ start: at, end, letters: [letter] });
        open = kind === "letter";
      }
      at = end;
    }
    return found.map(({ start, end, letters }) => ({ text: text.slice(start, end), pieces: this.#pieces(letters) }));
  }

  /** The longest pieces from the front; none if they do not make up the whole word. @param {string[]} letters */
  #pieces(letters) {
    const pieces = [];
    if (letters.length > this.longest) return [];
    for (let start = 0; start < letters.length; ) {
      let end = letters.length;
      let id;
      for (; end > start; end--) {
        id = this.ids.get((start ? "##" : "") + letters.slice(start, end).join(""));
        if (id !== undefined) break;
      }
      if (id === undefined) return [];
      pieces.push(id);
      start = end;
    }
    return pieces.filter((id) => !this.special.has(id));
  }
}
