"""Reads many postings or stored fields by one call: the loops run inside Java.

A call from Python for each would take some microseconds, and nothing here compiles Java. So a loop
is composed of method handles, Java's references to methods, of which Java compiles what is called
often. See `java.lang.invoke.MethodHandles`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.lucene.jvm import declare, java

LUCENE = "org.apache.lucene."
PRIMITIVE = {"int": "Integer", "boolean": "Boolean", "void": "Void"}


def read_pairs(postings: Any, count: int) -> NDArray[np.int32]:
    """The first [count, 2] documents and frequencies of Lucene's `PostingsEnum`."""
    buffer = _buffer()
    _pairs_loop().invokeWithArguments(_list(0, count, buffer, postings))
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
    texts = _list()
    loop = _fields_loop(first, second)
    loop.invokeWithArguments(_list(documents.start, documents.stop, texts, stored, wanted))
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
    handles = _handles()
    output, postings = LUCENE + "store.DataOutput", LUCENE + "index.PostingsEnum"
    write = _method(output, "writeInt", "void", "int")
    document, frequency = (
        handles.collectArguments(write, 1, _method(postings, name, "int"))
        for name in ("nextDoc", "freq")
    )
    return _counted(handles.foldArguments(frequency, document), (3, 4), output, postings)


@cache
def _fields_loop(first: str, second: str) -> Any:
    """The loop (int start, int end, list, stored fields, set): add two texts of a document."""
    handles = _handles()
    texts, text, names = "java.util.ArrayList", "java.lang.String", "java.util.Set"
    stored, document = LUCENE + "index.StoredFields", LUCENE + "document.Document"
    add = _method(texts, "add", "boolean", "java.lang.Object")
    add = add.asType(_signature("void", texts, text))
    add_field = handles.collectArguments(add, 1, _method(document, "get", text, text))
    before, after = (handles.insertArguments(add_field, 2, [name]) for name in (first, second))
    read = _method(stored, "document", document, "int", names)
    step = handles.collectArguments(handles.foldArguments(after, before), 1, read)
    return _counted(step, (3, 4, 0, 5), texts, stored, names)


def _counted(step: Any, places: tuple[int, ...], *arguments: str) -> Any:
    """The loop (int start, int end, *arguments) over a step.

    Args:
        step: whose arguments are some of (int number, int start, int end, *arguments).
        places: of its arguments among those.
        arguments: types.
    """
    handles = _handles()
    given = ("int", "int", *arguments)
    body = handles.permuteArguments(step, _signature("void", "int", *given), places)
    number = handles.identity(_type("int"))
    start, end = (
        handles.permuteArguments(number, _signature("int", *given), (place,)) for place in (0, 1)
    )
    return handles.countedLoop(start, end, None, body)


def _method(owner: str, name: str, returns: str, *arguments: str) -> Any:
    """A method of an object, which becomes its first argument."""
    return (
        _handles().publicLookup().findVirtual(_type(owner), name, _signature(returns, *arguments))
    )


def _signature(returns: str, *arguments: str) -> Any:
    return _method_type().methodType(_type(returns), _types(*arguments))


def _types(*names: str) -> Any:
    return _list(*map(_type, names))


def _type(name: str) -> Any:
    if name in PRIMITIVE:
        return java("java.lang." + PRIMITIVE[name]).TYPE
    return java("java.lang.Class").forName(name)


def _list(*values: Any) -> Any:
    made = java("java.util.ArrayList")()
    for value in values:
        made.add(value)
    return made


@cache
def _method_type() -> Any:
    kind = "Ljava/lang/invoke/MethodType;"
    return declare(
        "java/lang/invoke/MethodType",
        methodType=f"static (Ljava/lang/Class;Ljava/util/List;){kind}",
    )


@cache
def _handles() -> Any:
    """Java's `MethodHandles`, with the members called here."""
    invoke = "java/lang/invoke/"
    handle, kind = f"L{invoke}MethodHandle;", f"L{invoke}MethodType;"
    declare(
        invoke + "MethodHandle",
        invokeWithArguments="(Ljava/util/List;)Ljava/lang/Object;",
        asType=f"({kind}){handle}",
    )
    declare(
        invoke + "MethodHandles$Lookup",
        findVirtual=f"(Ljava/lang/Class;Ljava/lang/String;{kind}){handle}",
    )
    return declare(
        invoke + "MethodHandles",
        publicLookup=f"static ()L{invoke}MethodHandles$Lookup;",
        identity=f"static (Ljava/lang/Class;){handle}",
        collectArguments=f"static ({handle}I{handle}){handle}",
        foldArguments=f"static ({handle}{handle}){handle}",
        insertArguments=f"static ({handle}I[Ljava/lang/Object;){handle}",
        permuteArguments=f"static ({handle}{kind}[I){handle}",
        countedLoop=f"static ({handle}{handle}{handle}{handle}){handle}",
    )
