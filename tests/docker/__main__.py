"""`make docker-check`: every check of the folder docker/ that this machine has the tools for.

It builds the serving image with buildah, measures it, and runs it as a container would.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pillow_heif
from PIL import Image

from tests.scenes.corpus import write_scenes

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
DOCKER = ROOT / "docker"
IMAGE = "visualsparta"
BASE = "python:3.11-slim-trixie"
LARGEST, LARGEST_COMPRESSED = 550e6, 205e6
START = 300  # seconds a server may take to become ready on a busy machine


def buildah(*arguments: str | Path) -> str:
    """What buildah prints; without a kernel that isolates containers, a chroot does."""
    environment = {"BUILDAH_ISOLATION": "chroot", **os.environ}
    command = ["buildah", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


def build_image() -> None:
    """Build the serving image, on a stand-in for the base where no registry is reached."""
    options = ["--format", "docker", "--file", "docker/Dockerfile", "--tag", IMAGE]
    if not _has_base():
        subprocess.run([HERE / "standin.sh", BASE, sys.base_prefix], check=True)
    buildah("build", "--layers", *options, ".")


def _has_base() -> bool:
    command = ["buildah", "pull", "--quiet", "--policy", "ifmissing", BASE]
    return not subprocess.run(command, capture_output=True, check=False).returncode


def measure_image() -> None:
    """Compare the size of the image, and its size as it is pushed, with their bounds."""
    with tempfile.TemporaryDirectory() as folder:
        buildah("push", "--quiet", IMAGE, f"oci:{folder}/layout")
        files, compressed = image_sizes(Path(folder) / "layout")
    sys.stdout.write(f"{files:,} bytes, {compressed:,} compressed\n")
    assert files < LARGEST and compressed < LARGEST_COMPRESSED


def image_sizes(layout: Path) -> tuple[int, int]:
    """Bytes of the files of the one image of an OCI layout, and of its compressed layers."""

    def blob(digest: str) -> Path:
        return layout / "blobs" / digest.replace(":", "/")

    index = json.loads((layout / "index.json").read_text())
    layers = json.loads(blob(index["manifests"][0]["digest"]).read_text())["layers"]
    files = 0
    for layer in layers:
        with tarfile.open(blob(layer["digest"])) as archive:
            files += sum(member.size for member in archive)
    return files, sum(layer["size"] for layer in layers)


def run_image() -> None:
    """Draw photos, index them in the image with a read-only root, serve them, and search."""
    with _mounted() as root, tempfile.TemporaryDirectory() as folder:
        data, photos = Path(folder) / "data", Path(folder) / "photos"
        data.mkdir()
        os.chown(data, 10001, 10001)
        write_scenes(photos, 100, seed=3, split="demo")
        iphone = pillow_heif.from_pillow(Image.open(next(photos.rglob("*.jpg"))))
        iphone.save(photos / "iphone.heic")
        environment = _environment()
        confined = [HERE / "confined.sh", root, data, photos, "env", "--ignore-environment"]
        command = [str(word) for word in (*confined, *environment)]
        printed = subprocess.run(
            [*command, "index-photos"], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        key = printed.split()[-1]
        images = json.loads((data / "index" / "manifest.json").read_text())["images"]
        assert images == 101, "a photo could not be read"
        with subprocess.Popen([*command, "sparta", "serve"]) as server:
            try:
                _wait()
                subprocess.run([*command, "python", "/usr/local/bin/healthcheck.py"], check=True)
                _search(key)
            finally:
                server.terminate()


@contextmanager
def _mounted() -> Iterator[Path]:
    container = buildah("from", "--pull-never", IMAGE)
    try:
        yield Path(buildah("mount", container))
    finally:
        buildah("rm", container)


def _environment() -> list[str]:
    """NAME=value of the image's variables."""
    found = json.loads(buildah("inspect", "--type", "image", IMAGE))
    return [str(line) for line in found["Docker"]["config"]["Env"]]


def _wait() -> None:
    """Until the server is ready."""
    end = time.monotonic() + START
    while True:
        try:
            with urllib.request.urlopen("http://127.0.0.1:8000/readyz", timeout=5):
                return
        except urllib.error.URLError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def _search(key: str) -> None:
    """Search without the key, which is refused, and with it."""
    url = "http://127.0.0.1:8000/v1/search?q=hot+air+balloons&k=5"
    try:
        urllib.request.urlopen(url, timeout=30)
        raise AssertionError("a search without a key was answered")
    except urllib.error.HTTPError as refused:
        assert refused.code == 401, refused
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=30) as response:
        answer = json.load(response)
    assert len(answer["hits"]) == 5, answer
    sys.stdout.write(f"hits: {', '.join(hit['image_id'] for hit in answer['hits'])}\n")


def lint_dockerfile() -> None:
    """Let hadolint read the Dockerfile."""
    subprocess.run(["hadolint", DOCKER / "Dockerfile"], check=True)


def check_compose() -> None:
    """Let Docker Compose read its files, with all profiles."""
    environment = {**os.environ, "PHOTOS": "/photos"}
    for file in sorted(DOCKER.glob("compose*.yaml")):
        command = ["docker-compose", "--file", str(file), "--profile", "*", "config", "--quiet"]
        subprocess.run(command, check=True, env=environment)


def check_manifests() -> None:
    """Compare the Kubernetes manifests with the schemas of Kubernetes."""
    manifests = sorted(DOCKER.glob("kubernetes/*.yaml"))
    subprocess.run(["kubernetes-validate", "--strict", "--quiet", *manifests], check=True)


# What a check needs on the path.
CHECKS: dict[Callable[[], None], list[str]] = {
    lint_dockerfile: ["hadolint"],
    check_compose: ["docker-compose"],
    check_manifests: ["kubernetes-validate"],
    build_image: ["buildah", "debootstrap", "strip"],
    measure_image: ["buildah"],
    run_image: ["buildah", "unshare"],
}


def main() -> int:
    """Run the checks one after another; 1 if one failed."""
    results = []
    for check, tools in CHECKS.items():
        missing = [tool for tool in tools if not shutil.which(tool)]
        result = f"skipped: {', '.join(missing)} is not installed" if missing else _result(check)
        results.append(f"{check.__name__:16} {result}")
        sys.stdout.write(f"{results[-1]}\n")
    sys.stdout.write("\n".join(["", *results, ""]))
    return any(" failed: " in result for result in results)


def _result(check: Callable[[], None]) -> str:
    try:
        check()
    except (AssertionError, OSError, subprocess.CalledProcessError) as error:
        return f"failed: {error}"
    return "passed"


if __name__ == "__main__":
    sys.exit(main())
