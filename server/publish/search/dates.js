// Dates as filters name them: the period from the first microsecond to the one after the last.

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
export function period(text) {
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
export const isInterval = (name) => Object.hasOwn(LETTERS, name);

/** The year, month or day of microseconds since 1970. @param {bigint} value @param {Interval} interval */
export function named(value, interval) {
  const milliseconds = value / 1000n - (value < 0n && value % 1000n ? 1n : 0n);
  return new Date(Number(milliseconds)).toISOString().slice(0, LETTERS[interval]);
}
