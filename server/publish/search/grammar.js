// The grammar of queries: signs, weights and phrases; see docs/queries.md.

/** As `OPERATORS` of indexer/query.py; null: images need not have the word. */
export const OPERATORS = {
  "": { counts: true, required: null },
  "+": { counts: true, required: true },
  "-": { counts: false, required: false },
};

/** @typedef {keyof typeof OPERATORS} Sign */
/**
 * A part of a query; `word` says whether its text is one word of all its pieces.
 * @typedef {{text: string, sign: Sign, weight: number, word: boolean, at: number}} Clause
 */

const LARGEST_WEIGHT = 100;
// As Python's \s, \w and [^\W\d_].
export const SPACES = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const SIGN = `[${Object.keys(OPERATORS).join("").replace(/[\\\]^-]/g, "\\$&")}]`;
const LETTER = "[\\p{L}\\p{Nl}\\p{No}]";
const WORDLY = "[\\p{L}\\p{N}_]";
const QUOTE = '["“”]';
const WEIGHT = "\\^(?<weight>[-+]?\\p{Nd}+(?:[.,]\\p{Nd}+)?)";
const END = `(?=[.,;:!?)\\]]*(?:[${SPACES}]|$))`;
const sticky = (/** @type {string} */ pattern) => new RegExp(pattern, "uy");
const SPACE = sticky(`[${SPACES}]+`);
const PART = sticky(`[^${SPACES}]+`);
const PHRASE = sticky(`(?<sign>${SIGN}?)${QUOTE}(?<words>(?:\\\\[^]|[^"“”\\\\])*)${QUOTE}(?:${WEIGHT})?${END}`);
const UNCLOSED = sticky(`${SIGN}(?=${QUOTE})`);
const SIGNED = sticky(
  `(?<sign>${SIGN})(?=${LETTER})(?![^${SPACES}]*-(?:[${SPACES}]|$))(?<words>[^${SPACES}]+?)(?:${WEIGHT})?${END}`,
);
const WEIGHTED = sticky(`(?<sign>)(?<words>(?=[^${SPACES}^]*${LETTER})[^${SPACES}^]*${WORDLY})${WEIGHT}${END}`);
const ESCAPE = new RegExp(`^\\\\(?=${SIGN}${LETTER}|${SIGN}?${QUOTE})|(?<=${WORDLY})\\\\(?=\\^[-+]?\\p{Nd})`, "gu");
const ESCAPED_QUOTE = /\\(["“”\\])/g;
const SUSPECT = new RegExp(`(?:^|[${SPACES}\\\\])(?:${SIGN}${LETTER}|${SIGN}?${QUOTE})|\\^[-+]?\\p{Nd}`, "u");
const OUTER = new RegExp(`^[${SPACES}]+|[${SPACES}]+$`, "g");

const SPACED = new RegExp(`[\\p{P}\\p{S}${SPACES}]+`, "gu");
const NO_LETTERS = /[\xb4\u2120\u2122\u02b9-\u02bc]/g;
// What people put before a query, as in indexer/query.py.
const PICTURES =
  "(?:(?:an?|the|some|any|all|every|each|more|my|our|of|these|those) )*" +
  "(?:photo|photograph|picture|pic|image|snap|snapshot|foto)s? (?:of|showing|with|containing" +
  "|depicting|featuring|including|where|(?:i|we) took of|(?:that|which) (?:show|contain|have)s?)";
const ASKED =
  "please|pls|(?:can|could|would|will|may) (?:you|(?:i|we) (?:see|have|get))|let (?:me|us|s) see" +
  "|i (?:want|need|d like|would like)(?: to see)?|(?:i ?m|i am|we are) (?:looking|searching) for" +
  "|(?:show|give|find|get|fetch|bring) (?:me|us)|find|(?:search|look|looking|searching) for" +
  "|(?:show|display|see|view|get|search|list|browse|do you have|(?:are|is) there" +
  `|where (?:is|are))(?= ${PICTURES}(?: |$))`;
const FRAME = new RegExp(`^(?:(?:${ASKED}|${PICTURES})(?: |$))+`);

/** Text without punctuation and symbols, its compatibility forms folded. @param {string} text */
const words = (text) => (/^[a-z0-9 ]*$/i.test(text) ? text : stripped(text.replace(NO_LETTERS, " ").normalize("NFKC").replace(SPACED, " ")));

/** @param {string} text @param {boolean} counted */
function unframed(text, counted) {
  const found = FRAME.exec(text.toLowerCase());
  return found && (counted || found[0].length < text.length) ? text.slice(found[0].length) : text;
}

/** Text without white space around it. @param {string} text */
export const stripped = (text) => text.replace(OUTER, "");

/** A query that cannot be read; `column` counts characters from 1. */
export class QueryError extends Error {
  /** @param {string} problem @param {string} text @param {number} at */
  constructor(problem, text, at) {
    const column = [...text.slice(0, at)].length + 1;
    super(`query, column ${column}: ${problem}`);
    this.problem = problem;
    this.column = column;
  }
}

/** @param {RegExp} pattern @param {string} text @param {number} at */
function matched(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** The value of decimal digits of any script. @param {string} digits */
function valueOf(digits) {
  let value = 0;
  for (const digit of digits) {
    let code = digit.codePointAt(0) ?? 0;
    let own = 0;
    while (/\p{Nd}/u.test(String.fromCodePoint(--code))) own++;
    value = 10 * value + (own % 10);
  }
  return value;
}

/** @param {RegExpExecArray} found @returns {Clause} */
function clause(found) {
  const { input: text, index: at } = found;
  const { words: raw, weight } = /** @type {Record<string, string>} */ (found.groups);
  const words = stripped(raw.replace(ESCAPED_QUOTE, "$1").replace(ESCAPE, ""));
  if (!words) throw new QueryError("there is no word between the quotation marks", text, at);
  const sign = /** @type {Sign} */ (found.groups?.sign ?? "");
  if (weight === undefined) return { text: words, sign, weight: 1, word: true, at };
  const place = found[0].lastIndexOf("^") + 1 + at;
  if (!OPERATORS[sign].counts) throw new QueryError("an excluded word has no weight: leave it out", text, place);
  const value = /^\p{Nd}+$/u.test(weight) && [...weight].length <= 3 ? valueOf(weight) : 0;
  if (value < 1 || value > LARGEST_WEIGHT) {
    throw new QueryError(`a weight is a whole number from 1 to ${LARGEST_WEIGHT}`, text, place);
  }
  return { text: words, sign, weight: value, word: true, at };
}

/** What begins at a place, plain text or a clause, and its end. @param {string} text @param {number} at */
function token(text, at) {
  const space = matched(SPACE, text, at);
  if (space) return { own: space[0], end: at + space[0].length };
  const phrase = matched(PHRASE, text, at);
  if (phrase) {
    const operator = phrase.groups?.sign || phrase.groups?.weight;
    return { own: operator ? clause(phrase) : phrase[0], end: at + phrase[0].length };
  }
  if (matched(UNCLOSED, text, at)) {
    throw new QueryError("this quotation mark is not closed before a space or the end", text, at + 1);
  }
  const word = matched(SIGNED, text, at) ?? matched(WEIGHTED, text, at);
  if (word) return { own: clause(word), end: at + word[0].length };
  const part = /** @type {RegExpExecArray} */ (matched(PART, text, at));
  return { own: part[0].replace(ESCAPE, ""), end: at + part[0].length };
}

/** The clauses of a query; of a text without operators the text itself. @param {string} text @returns {Clause[]} */
export function parse(text) {
  const plain = (/** @type {string} */ own, /** @type {number} */ at) => ({ text: own, sign: /** @type {Sign} */ (""), weight: 1, word: false, at });
  if (!SUSPECT.test(text)) return [plain(unframed(words(text), false) || text, 0)];
  /** @type {Clause[]} */
  const clauses = [];
  for (let at = 0; at < text.length; ) {
    const { own, end } = token(text, at);
    const last = clauses[clauses.length - 1];
    if (typeof own !== "string") clauses.push(own);
    else if (last && !last.word) last.text += own;
    else clauses.push(plain(own, at));
    at = end;
  }
  const [first, ...others] = clauses.map((one) => (one.word ? one : { ...one, text: words(one.text) }));
  if (!first.word) first.text = unframed(first.text, others.some((one) => OPERATORS[one.sign].counts));
  const spoken = [first, ...others].filter((one) => one.text);
  return spoken.length ? spoken : [clauses[0]];
}

/** The clauses of a query that searches for something. @param {string} text */
export function searchable(text) {
  const clauses = parse(text);
  if (!clauses.some((one) => OPERATORS[one.sign].counts)) {
    throw new QueryError("it only excludes: add words to search for", text, clauses[0]?.at ?? 0);
  }
  return clauses;
}
