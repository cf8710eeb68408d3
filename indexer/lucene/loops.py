"""Reads many postings or stored fields by one call: the loops run inside Java.

A call from Python for each would take some microseconds.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.lucene.jvm import declare, java
from indexer.lucene.method_handles import handles, java_list, java_type, method, signature

LUCENE = "org.apache.lucene."


def read_pairs(postings: Any, count: int) -> NDArray[np.int32]:
    """The first [count, 2] documents and frequencies of Lucene's `PostingsEnum`."""
    buffer = _buffer()
    _pairs_loop().invokeWithArguments(java_list(0, count, buffer, postings))
    pairs = np.frombuffer(buffer.toArrayCopy().tostring(), "<i4").reshape(-1, 2)
    buffer.reset()
    return pairs


def list_fields(stored: Any, documents: range, first: str, second: str, wanted: Any) -> Any:
    """Two stored texts of each document as one Java list, null for one that it lacks.

    Args:
        stored: Lucene's `StoredFields`.
        documents: consecutive numbers.
        first: name of a field.
        second: name of another one.
        wanted: Java's set of both names.
    """
    texts = java_list()
    loop = _fields_loop(first, second)
    loop.invokeWithArguments(java_list(documents.start, documents.stop, texts, stored, wanted))
    return texts


@cache
def _buffer() -> Any:
    """Java's memory for postings, which grows to the longest list and is used again."""
    declare(
        LUCENE.replace(".", "/") + "store/ByteBuffersDataOutput", reset="()V", toArrayCopy="()[B"
    )
    return java(LUCENE + "store.ByteBuffersDataOutput").newResettableInstance()


@cache
def _pairs_loop() -> Any:
    """The loop (int start, int end, output, postings): write a document, then its frequency."""
    make = handles()
    output, postings = LUCENE + "store.DataOutput", LUCENE + "index.PostingsEnum"
    write = method(output, "writeInt", "void", "int")
    document, frequency = (
        make.collectArguments(write, 1, method(postings, name, "int"))
        for name in ("nextDoc", "freq")
    )
    return _counted(make.foldArguments(frequency, document), (3, 4), output, postings)


@cache
def _fields_loop(first: str, second: str) -> Any:
    """The loop (int start, int end, list, stored fields, set): add two texts of a document."""
    make = handles()
    texts, text, names = "java.util.ArrayList", "java.lang.String", "java.util.Set"
    stored, document = LUCENE + "index.StoredFields", LUCENE + "document.Document"
    add = method(texts, "add", "boolean", "java.lang.Object")
    add = add.asType(signature("void", texts, text))
    add_field = make.collectArguments(add, 1, method(document, "get", text, text))
    before, after = (make.insertArguments(add_field, 2, [name]) for name in (first, second))
    read = method(stored, "document", document, "int", names)
    step = make.collectArguments(make.foldArguments(after, before), 1, read)
    return _counted(step, (3, 4, 0, 5), texts, stored, names)


def _counted(step: Any, places: tuple[int, ...], *arguments: str) -> Any:
    """The loop (int start, int end, *arguments) over a step.

    Args:
        step: whose arguments are some of (int number, int start, int end, *arguments).
        places: of its arguments among those.
        arguments: types.
    """
    make = handles()
    given = ("int", "int", *arguments)
    body = make.permuteArguments(step, signature("void", "int", *given), places)
    number = make.identity(java_type("int"))
    start, end = (
        make.permuteArguments(number, signature("int", *given), (place,)) for place in (0, 1)
    )
    return make.countedLoop(start, end, None, body)
