"""Files of NumPy whose headers state something else than they have."""

import struct

FIELDS = b"{'descr': '<i8', 'fortran_order': False, 'shape': (), }"
# Headers changed as fuzzing changed them, and what NumPy raises out of its parser of each.
HEADERS = {
    "IndentationError, dedent": FIELDS + b"\n  " + b"\0" * 56 + b"\n \0",
    "IndentationError, indent": FIELDS + b"\n    0\n  0" + b" " * 50 + b"\n",
    "TokenError": b"(" * 100 + b"\n",
    "TypeError": b"{[]: 1}\n",
    "OverflowError, shape": FIELDS.replace(b"()", b"(" + b"9" * 30 + b",)") + b"\n",
    "OverflowError, map": FIELDS.replace(b"()", b"(-9,)") + b"\n",
    "MemoryError": FIELDS.replace(b"()", b"(" + b"9" * 13 + b",)") + b"\n",
    "ValueError of two lines": FIELDS + b" " * 20000 + b"\n",
}


def npy(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(8)


def claim(shape: tuple[int, ...], entries: int = 8) -> bytes:
    """A header that states a shape of float32, and some bytes of entries."""
    fields = {"descr": "<f4", "fortran_order": False, "shape": shape}
    return npy(repr(fields).encode() + b"\n")[:-8] + bytes(entries)
