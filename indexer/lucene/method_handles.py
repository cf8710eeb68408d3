"""Java's references to methods, of which work is composed that runs without Python.

Nothing here compiles Java, but Java compiles what is composed of method handles if it is called
often. See `java.lang.invoke.MethodHandles`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from indexer.lucene.jvm import declare, java

PRIMITIVE = {"int": "Integer", "long": "Long", "boolean": "Boolean", "void": "Void"}


@cache
def method(owner: str, name: str, returns: str, *arguments: str) -> Any:
    """The handle of a method; the object it is called on becomes the first argument.

    Args:
        owner: name of the class.
        name: of the method.
        returns: name of a type, as those of the arguments.
        arguments: types.
    """
    kind = signature(returns, *arguments)
    return handles().publicLookup().findVirtual(java_type(owner), name, kind)


def as_callable(handle: Any, *arguments: Any) -> Any:
    """A `java.util.concurrent.Callable` that calls a handle with these arguments."""
    from jnius import cast

    name = "java.util.concurrent.Callable"
    given = [java("java.lang.Integer")(one) if isinstance(one, int) else one for one in arguments]
    bound = handles().insertArguments(handle, 0, given)
    bound = bound.asType(signature("java.lang.Object"))
    return cast(name, _proxies().asInterfaceInstance(java_type(name), bound))


def signature(returns: str, *arguments: str) -> Any:
    """Java's `MethodType`, of the names of types."""
    return _method_type().methodType(java_type(returns), _types(*arguments))


def _types(*names: str) -> Any:
    return java_list(*map(java_type, names))


def java_type(name: str) -> Any:
    """The Java class of a name, say `java.lang.String` or `int`."""
    if name in PRIMITIVE:
        return java("java.lang." + PRIMITIVE[name]).TYPE
    return java("java.lang.Class").forName(name)


def java_list(*values: Any) -> Any:
    """A Java list of some values."""
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
def _proxies() -> Any:
    invoke = "java/lang/invoke/"
    return declare(
        invoke + "MethodHandleProxies",
        asInterfaceInstance=f"static (Ljava/lang/Class;L{invoke}MethodHandle;)Ljava/lang/Object;",
    )


@cache
def handles() -> Any:
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
