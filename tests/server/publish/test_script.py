"""The script that searches, by itself: its types and its size."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from server.publish.publishing import OWN

SCRIPTS = OWN / "search"
PACKAGES = Path(__file__).parents[1] / "client" / "typescript" / "node_modules"
# Fetched by the first filter, and not before.
LATER = {"dates.js", "fields.js", "filter.js"}
LARGEST = 20 * 1024  # bytes, compressed
OPTIONS = {
    **{"strict": True, "checkJs": True, "allowJs": True, "noEmit": True, "types": []},
    **{"target": "es2024", "module": "es2022", "moduleResolution": "bundler"},
    "lib": ["es2024", "dom", "dom.iterable"],
}
USE = """
import { open } from "./search/index.js";
const index = await open("index/");
const { hits, timings } = await index.search("two dogs on a beach", { k: 20, explain: true });
const first: string | undefined = hits[0]?.explanation?.[0]?.term;
const total: number = (await index.browse("dog", { facets: ["taken:year"] })).total;
export { first, timings, total };
"""


def test_types(tmp_path: Path) -> None:
    """Of the script, and of one that uses it."""
    if not PACKAGES.is_dir():
        pytest.skip("the packages of npm are not installed")
    (tmp_path / "search").symlink_to(SCRIPTS)
    (tmp_path / "use.mts").write_text(USE)
    options = {"compilerOptions": OPTIONS, "files": ["use.mts"], "include": ["search/*.js"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(options))
    command = ["node", str(PACKAGES / "typescript" / "bin" / "tsc"), "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stdout


def test_size() -> None:
    scripts = [path.read_bytes() for path in SCRIPTS.glob("*.js") if path.name not in LATER]
    assert len(gzip.compress(b"".join(scripts))) <= LARGEST


def test_no_dependencies() -> None:
    for path in SCRIPTS.glob("*.js"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith(("import ", "export {")) and " from " in line:
                assert '"./' in line, f"{path.name}: {line}"
