"""`make docker-check`: every check of the folder docker/ that this machine has the tools for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable

from tests.docker.images import ROOT, build_image, measure_image, run_image

DOCKER = ROOT / "docker"


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
