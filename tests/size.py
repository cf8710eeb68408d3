"""The size of the project as a table: `make size`.

Files are those that git has, without results and shipped models. Modules are Python files of the
product but for `__init__.py`. A module has as many importers as other modules of the product import
it or a name of it, wherever in the file and for types alone too. Flags are the options of all
commands but `--help`, each once a command; `--x/--no-x` is one. Routes are methods with a path.
Words are separated by white space; "Words of docs" has
README, CONTRIBUTING and SECURITY too. Seconds of tests are added up from build/tests/*.xml, which
`make test` writes.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import typer

from sparta.command_line import COMMANDS

ROOT = Path(__file__).parent.parent
CHANGELOG = Path("CHANGELOG.md")
ROOMS = ("sparta", "indexer", "server", "training", "eval")
OTHERS = {
    "C": (".c", ".h"),
    "JavaScript": (".js",),
    "CSS and HTML": (".css", ".html"),
    "YAML presets": (".yaml",),
}
Sizes = dict[str, float]


def tracked(*suffixes: str) -> list[Path]:
    """Paths of files, relative to the root."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True)
    paths = (Path(line) for line in listed.stdout.decode().splitlines())
    return [path for path in paths if path.suffix in suffixes and (ROOT / path).is_file()]


def text_of(*paths: Path) -> str:
    return "".join((ROOT / path).read_text(encoding="utf-8") for path in paths)


def lines(paths: list[Path]) -> int:
    return text_of(*paths).count("\n")


def words(paths: list[Path]) -> int:
    return len(text_of(*paths).split())


def of_product(*suffixes: str) -> list[Path]:
    found = [path for path in tracked(*suffixes) if path.parts[0] in ROOMS]
    return [path for path in found if "results" not in path.parts and "shipped" not in path.parts]


def importers(files: list[Path]) -> dict[str, set[str]]:
    """Of each module the other modules that import it."""
    modules = {".".join(path.with_suffix("").parts): path for path in files}
    found: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for node in ast.walk(ast.parse(text_of(path))):
            imported: set[str] = set()
            if isinstance(node, ast.Import):
                imported = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            for one in imported & modules.keys() - {name}:
                found[one].add(name)
    return found


def flags(commands: dict[str, str]) -> int:
    """Options of commands."""
    count = 0
    for place in commands.values():
        module, _, name = place.partition(":")
        app = typer.Typer(add_completion=False)
        app.command()(getattr(import_module(module), name))
        given = typer.main.get_command(app).params
        count += sum(one.param_type_name == "option" and one.name != "help" for one in given)
    return count


def server() -> Sizes:
    """Of the server."""
    from server.app import ROUTERS
    from server.settings import ServerSettings

    routes: list[Any] = [route for router in ROUTERS for route in router.routes]
    methods = sum(len(route.methods) for route in routes if route.include_in_schema)
    return {"Server settings": len(ServerSettings.model_fields), "REST routes": methods}


def seconds() -> Sizes:
    """Of tests, if a report of theirs is there."""
    reports = [ElementTree.parse(path).getroot() for path in ROOT.glob("build/tests/*.xml")]
    times = [float(one.get("time", 0)) for report in reports for one in report.iter("testcase")]
    return {"Seconds of tests": round(sum(times))} if times else {}


def measure() -> Sizes:
    """All sizes by name."""
    python = of_product(".py")
    rooms = {room: [path for path in python if path.parts[0] == room] for room in ROOMS}
    others = {name: of_product(*suffixes) for name, suffixes in OTHERS.items()}
    sizes: Sizes = {f"Lines of {name}": lines(own) for name, own in (rooms | others).items()}
    sizes |= {"Lines of Python": lines(python), "Lines of product": sum(sizes.values())}
    modules = [path for path in python if path.name != "__init__.py"]
    single = [name for name, by in importers(modules).items() if len(by) == 1]
    sizes |= {"Modules": len(modules), "Modules with a single importer": len(single)}
    sizes["Lines a module"] = round(lines(modules) / len(modules), 1)
    sizes |= {"Commands": len(COMMANDS), "Flags of commands": flags(COMMANDS), **server()}
    pages = [path for path in tracked(".md") if path.parts[0] == "docs"]
    top = [Path(name) for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    sizes |= {"Pages in docs/": len(pages), "Words in docs/": words(pages)}
    sizes |= {"Words of docs": words(pages + top), "Words of CHANGELOG": words([CHANGELOG])}
    sizes["Lines of tests"] = lines([path for path in tracked(".py") if path.parts[0] == "tests"])
    return sizes | seconds()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="Write the sizes.")
    parser.add_argument(
        "--baseline", type=Path, metavar="FILE", help="Sizes to print beside these."
    )
    options = parser.parse_args()
    sizes = measure()
    if options.json:
        options.json.write_text(json.dumps(sizes, indent=2) + "\n")
    former: Sizes = json.loads(options.baseline.read_text()) if options.baseline else {}
    for name, size in sizes.items():
        row = f"{name:32}{size:>10,}"
        if before := former.get(name):
            row += f"{before:>10,}{size / before:>8.0%}"
        print(row)


if __name__ == "__main__":
    main()
