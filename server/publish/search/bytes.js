// Numbers and texts out of bytes.

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
