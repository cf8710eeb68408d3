"""`make paper`: run the blocks of docs/paper.md one after another, and show what they print.

Without --train it leaves out the training, and always the tables. `sparta serve` runs until the
block ends.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from urllib.request import urlopen

import matplotlib.pyplot as plt
import typer
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from PIL import Image

import sparta
from sparta.model_id import REGIONS
from tests.documents import ROOT

PAGE = ROOT / "docs" / "paper.md"
STEPS, TRAINING = "Step by step", "Training both models"
QUERY, SHOWN = "two blue crabs in the sea", "000001.jpg"
GREEN, RED = "#2a7f62", "#d1495b"
plt.rcParams["axes.titlesize"] = 10


def paper(
    train: Annotated[bool, typer.Option(help="Train both models, too.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for all of it, made anew.")] = ROOT / "paper",
    picture: Annotated[Path | None, typer.Option(help="Draw the page's picture alone.")] = None,
) -> None:
    """Run the paper's own path, from a detector's regions to Lucene and a service."""
    if picture:
        draw(picture)
        return
    shutil.rmtree(out, ignore_errors=True)
    start = time.monotonic()
    for heading in (STEPS, TRAINING) if train else (STEPS,):
        for language, block in blocks(heading):
            run_block(language, block, out)
    say(f"\nAll of it took {time.monotonic() - start:.0f} s and is in {out}.")


def blocks(heading: str) -> list[tuple[str, str]]:
    """Languages and texts of the code blocks below a heading that are to be run."""
    text = PAGE.read_text(encoding="utf-8")
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert section, f"{PAGE} has no heading {heading!r}"
    found = re.findall(r"^```(\w*)\n(.*?)^```", section[1], re.DOTALL | re.MULTILINE)
    return [(name, code.replace("\\\n", " ")) for name, code in found if name in ("", "python")]


def run_block(language: str, block: str, out: Path) -> None:
    """Run a block's lines; a server that one of them starts answers those after it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    block = re.sub(r"\bpaper/", f"{out}/", block).replace(":8000/", f":{port}/")
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = os.environ | {"PATH": tools, "SPARTA_PORT": port, "PYTHONPATH": str(ROOT)}
    with ExitStack() as stack:
        for line in [f"python -c {shlex.quote(block)}"] if language else block.splitlines():
            say(f"\n$ {'python' if language else ' '.join(line.split())}")
            if line.startswith("sparta serve"):
                server = subprocess.Popen(shlex.split(line), env=variables, cwd=ROOT)
                stack.callback(server.wait)
                stack.callback(server.terminate)
                await_server(server, port)
            elif line.startswith("curl "):  # which not every machine has
                with urlopen(shlex.split(line)[1], timeout=60) as answer:
                    say(answer.read().decode())
            elif subprocess.run(line, shell=True, env=variables, cwd=ROOT).returncode:
                raise SystemExit(f"the line failed: {line}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def await_server(server: subprocess.Popen[bytes], port: str) -> None:
    while server.poll() is None:
        try:
            urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit("the server has ended")


# ---- the picture ---------------------------------------------------------------------------------


def draw(out: Path) -> None:
    """One photo's regions and largest terms, the postings of a query's terms, and its sum."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "tests.scenes", "--out", str(folder / "scenes")]
        subprocess.run([*command, "--count", "120", "--seed", "4", "--split", "test"], check=True)
        photo = Image.open(folder / "scenes" / "images" / SHOWN).convert("RGB")
        first, second, *_ = blocks(STEPS)[0][1].splitlines()
        export = "sparta export anserini paper/index paper/vectors"
        run_block("", "\n".join([first, second, export]), folder)
        with sparta.open(folder / "index") as index:
            counts = index.terms(QUERY)
        files = [file.read_text(encoding="utf-8") for file in (folder / "vectors").glob("*.jsonl")]
        lines = [json.loads(line) for file in files for line in file.splitlines()]
    vectors = {line["id"]: line["vector"] for line in lines}
    figure, (regions, terms, postings, total) = plt.subplots(
        1, 4, figsize=(14, 4), width_ratios=[1.2, 1, 1, 1], layout="constrained"
    )
    draw_regions(regions, photo)
    largest = sorted(vectors[SHOWN].items(), key=lambda item: -item[1])[:10]
    draw_bars(terms, [term for term, _ in largest], [impact for _, impact in largest], GREEN)
    terms.set_title("the transformer: its ten largest\nweights, as impacts in 8 bits")
    held = [sorted((one.get(term, 0) for one in vectors.values()), reverse=True) for term in counts]
    for row, (term, impacts) in enumerate(zip(counts, held, strict=True)):
        draw_postings(postings, row, impacts, vectors[SHOWN].get(term, 0))
    names = [
        f"{term}\n{sum(map(bool, own))} images" for term, own in zip(counts, held, strict=True)
    ]
    postings.set(yticks=range(len(counts)), yticklabels=names, xlabel="images, best first")
    postings.invert_yaxis()
    postings.set_title("Lucene: postings of the query's\nterms, this image's in red")
    summed = [count * vectors[SHOWN].get(term, 0) for term, count in counts.items()]
    names = [term if count == 1 else f"{count} · {term}" for term, count in counts.items()]
    draw_bars(total, [*names, "sum"], [*summed, sum(summed)], RED)
    total.set_title(f"“{QUERY}”:\nthe impacts are summed")
    figure.savefig(out, dpi=100)


def draw_regions(axes: Axes, photo: Image.Image) -> None:
    key = SHOWN.removesuffix(".jpg")
    lines = (REGIONS / "oscar" / "predictions.tsv").read_text(encoding="utf-8").splitlines()
    [objects] = [json.loads(line.partition("\t")[2]) for line in lines if line.startswith(key)]
    axes.imshow(photo)
    for item in objects["objects"]:
        x1, y1, x2, y2 = item["rect"]
        axes.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor=RED, lw=2))
        words = " ".join([*item["attributes"], item["class"]])
        axes.text(x1, y1 - 2, words, color="white", backgroundcolor="#00000080", size=8)
    axes.set_title("a detector: regions with labels\n(and a vector and six numbers of each)")
    axes.set_axis_off()


def draw_bars(axes: Axes, names: list[str], values: list[int], colour: str) -> None:
    bars = axes.barh(range(len(names)), values, color=colour)
    axes.bar_label(bars, padding=2)
    axes.set(yticks=range(len(names)), yticklabels=names, xlim=(0, 1.2 * max(values)), xticks=[])
    axes.invert_yaxis()


def draw_postings(axes: Axes, row: int, impacts: list[int], shown: int) -> None:
    """A term's impacts as a strip, the shown image's marked."""
    held = [impact for impact in impacts if impact]
    heights = [-0.8 * impact / 255 for impact in held]  # the axis points down
    axes.bar(range(len(held)), heights, bottom=row + 0.4, width=1, color=GREEN)
    if shown:
        axes.bar(held.index(shown), -0.8 * shown / 255, bottom=row + 0.4, width=2.5, color=RED)


if __name__ == "__main__":
    typer.run(paper)
