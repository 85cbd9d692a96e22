"""The files of examples/deploy: each is read as its own program would, and held to the code."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import crossplane  # type: ignore[import-untyped]
import pytest
import yaml
from dockerfile_parse import DockerfileParser  # type: ignore[import-untyped]
from starlette.routing import Route

from lookhear.engine.config import EngineConfig
from lookhear.gateway.app.app import create_app
from lookhear.gateway.app.server import KEEP_ALIVE, PING_INTERVAL
from lookhear.gateway.commands.arguments import engine_configs, gateway_config
from lookhear.gateway.commands.settings import read_settings
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.telemetry.metrics import Metrics
from tests.gateway.fake_engine import FakeEngine

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "examples" / "deploy"
KEY = {"LOOKHEAR_API_KEY": "a-long-random-string"}
USER = "10001"


def served(arguments: list[str]) -> tuple[GatewayConfig, list[EngineConfig]]:
    """What `lookhear serve` would make of them."""
    options = read_settings(arguments, KEY).options
    return gateway_config(options), engine_configs(options)


def paths() -> set[str]:
    async def load() -> None: ...

    app = create_app(GatewayConfig(), FakeEngine(), load)
    return {route.path for route in app.routes if isinstance(route, Route)}


def metric_names() -> set[str]:
    names: set[str] = set()
    for family in Metrics().registry.collect():
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        names |= {family.name + end for end in suffixes.get(family.type, ("",))}
    return names


def drain_seconds(arguments: list[str]) -> float:
    return float(arguments[arguments.index("--drain-seconds") + 1])


# --- Dockerfile ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dockerfile() -> list[dict[str, Any]]:
    with (DEPLOY / "Dockerfile").open("rb") as file:
        steps: list[dict[str, Any]] = DockerfileParser(fileobj=file).structure
    return [step for step in steps if step["instruction"] != "COMMENT"]


def stage(steps: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The steps of a target, those of the one it stands on first."""
    starts = [n for n, step in enumerate(steps) if step["instruction"] == "FROM"]
    for start, end in zip(starts, [*starts[1:], len(steps)], strict=True):
        below, _, own = steps[start]["value"].partition(" AS ")
        if own == name:
            return [*(stage(steps, below) if ":" not in below else []), *steps[start + 1 : end]]
    raise AssertionError(f"no target {name}")


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_image_runs_as_nobody_and_is_asked_how_it_is(
    dockerfile: list[dict[str, Any]], target: str
) -> None:
    steps = {step["instruction"]: step["value"] for step in stage(dockerfile, target)}
    assert steps["USER"] == USER and steps["STOPSIGNAL"] == "SIGTERM"
    assert "127.0.0.1:8000/health" in steps["HEALTHCHECK"]
    command, serve, *arguments = json.loads(steps["ENTRYPOINT"])
    assert (command, serve) == ("lookhear", "serve")
    gateway, _ = served(arguments)
    assert (gateway.host, str(gateway.port)) == ("0.0.0.0", steps["EXPOSE"])


def test_the_steps_of_the_image_run(dockerfile: list[dict[str, Any]], tmp_path: Path) -> None:
    """In a folder instead of a container, with what is installed here instead of what pip would
    fetch; apt-get and useradd would change this machine, and are only asked for the right thing.
    The larger target: the other has the same steps but for the compiler."""
    source, home, tools = (tmp_path / name for name in ("src", "home", "tools"))
    for folder in (source, home, tools):
        folder.mkdir()
    for name in ("apt-get", "useradd", "rm"):
        (tools / name).write_text(f'#!/bin/sh\necho "$0 $*" >> {tmp_path}/asked\n')
        (tools / name).chmod(0o755)
    environment = {
        **os.environ,
        "VIRTUAL_ENV": str(home / "venv"),
        "HOME": str(home),
        "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say no
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if "site-packages" in path),
    }
    for step in stage(dockerfile, "cuda"):
        if step["instruction"] == "COPY":
            *names, into = step["value"].split()
            for name in names:
                assert (ROOT / name).exists(), name
                copied = subprocess.run(
                    ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", name],
                    cwd=ROOT, capture_output=True, check=True,
                ).stdout.decode().split("\0")  # fmt: skip
                for file in filter(None, copied):
                    goal = source / into / file if into == "./" else source / file
                    goal.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / file, goal, follow_symlinks=False)
        elif step["instruction"] == "RUN" and "torch>=" not in step["value"]:
            done = subprocess.run(
                step["value"], shell=True, cwd=source, env=environment, capture_output=True,
                text=True, timeout=300,
            )  # fmt: skip
            assert done.returncode == 0, (step["value"], done.stdout, done.stderr)
    programs = home / "venv" / "bin"
    for program, arguments, wanted in (
        ("lookhear", ["serve", "--help"], "--drain-seconds"),
        ("python", ["-c", "import lookhear; print(lookhear.__file__)"], str(home)),
    ):
        command = [str(programs / program), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and wanted in done.stdout, done
    asked = (tmp_path / "asked").read_text()
    assert f"--uid {USER}" in asked and "gcc" in asked


def test_torch_is_the_one_that_the_package_wants(dockerfile: list[dict[str, Any]]) -> None:
    wanted = re.search(r'"(torch>=[^"]+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert wanted is not None
    for target in ("cpu", "cuda"):
        runs = [s["value"] for s in stage(dockerfile, target) if s["instruction"] == "RUN"]
        assert any(f'"{wanted[1]}"' in run for run in runs)


# --- compose and Kubernetes ----------------------------------------------------------------------


def test_compose() -> None:
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    service = found["services"]["lookhear"]
    build = service["build"]
    context = (DEPLOY / build["context"]).resolve()
    assert context == ROOT and (context / build["dockerfile"]).is_file()
    served(["--host", "0.0.0.0", *service["command"]])
    assert float(service["stop_grace_period"].removesuffix("s")) > drain_seconds(service["command"])
    assert {"lookhear"} == found["volumes"].keys()
    for other in ("prometheus", "grafana"):
        for volume in found["services"][other]["volumes"]:
            name = volume.split(":")[0]
            yaml.safe_load((DEPLOY / name).read_text("utf-8"))


def test_kubernetes() -> None:
    kinds = {
        found["kind"]: found
        for found in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8"))
    }
    assert kinds.keys() == {
        "Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler",
    }  # fmt: skip
    pod = kinds["Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    served(["--host", "0.0.0.0", *container["args"]])
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] in paths()
    before = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    needed = before + drain_seconds(container["args"])
    assert pod["spec"]["terminationGracePeriodSeconds"] > needed
    assert pod["spec"]["securityContext"]["runAsUser"] == int(USER)
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]}
    labels = pod["metadata"]["labels"]
    assert kinds["Service"]["spec"]["selector"] == labels
    assert kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    scaler = kinds["HorizontalPodAutoscaler"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == kinds["Deployment"]["metadata"]["name"]
    assert {metric["pods"]["metric"]["name"] for metric in scaler["metrics"]} <= metric_names()


def test_prometheus_has_the_key_of_the_pods() -> None:
    text = (DEPLOY / "kubernetes.yaml").read_text("utf-8")
    assert "prometheus.io/scrape" not in text, "it would be refused: /metrics wants the key"
    *_, commented = text.partition("\n# ---\n")
    monitor = yaml.safe_load("\n".join(line[2:] for line in commented.splitlines()))
    deployment = next(iter(yaml.safe_load_all(text)))
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    (scraped,) = monitor["spec"]["podMetricsEndpoints"]
    assert monitor["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert scraped["port"] in {port["name"] for port in container["ports"]}
    keys = [entry["valueFrom"]["secretKeyRef"] for entry in container["env"]]
    assert scraped["authorization"]["credentials"] in keys


# --- systemd, nginx, Grafana ---------------------------------------------------------------------


def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(DEPLOY / "lookhear.service")
    return parser["Service"]


def test_the_unit_starts_what_there_is() -> None:
    service = unit()
    program, command, *arguments = shlex.split(service["ExecStart"])
    assert program.endswith("/bin/lookhear") and command == "serve"
    served(arguments)
    assert float(service["TimeoutStopSec"]) > drain_seconds(arguments)


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze here")
    text = (DEPLOY / "lookhear.service").read_text("utf-8")
    here = tmp_path / "lookhear.service"
    here.write_text(text.replace("/opt/lookhear/bin/lookhear", sys.executable))
    done = subprocess.run([program, "verify", str(here)], capture_output=True, text=True)
    wrong = [line for line in done.stderr.splitlines() if "lookhear.service" in line]
    assert not wrong, done.stderr


def test_it_is_told_what_of_the_unit_is_of_the_server_alone() -> None:
    """The bridge does not say when it is ready, and a SIGHUP would end it."""
    page = (ROOT / "docs" / "wyoming.md").read_text("utf-8")
    assert unit()["Type"] == "notify" and "`Type=exec`" in page
    assert "ExecReload" in unit() and "without `ExecReload=`" in page


def test_nginx_passes_sockets_on_and_waits_long_enough() -> None:
    found = crossplane.parse(str(DEPLOY / "nginx.conf"), check_ctx=False)
    assert found["status"] == "ok", found["errors"]
    blocks = found["config"][0]["parsed"]
    (server,) = [block for block in blocks if block["directive"] == "server"]
    (upstream,) = [block for block in blocks if block["directive"] == "upstream"]
    places = {" ".join(b["args"]): b["block"] for b in server["block"] if "block" in b}
    said = {step["directive"]: step["args"] for step in places["/"]}
    headers = dict(s["args"] for s in places["/"] if s["directive"] == "proxy_set_header")
    assert {"Host", "Upgrade", "Connection"} <= headers.keys()
    assert headers["Host"] == "$http_host", "a page on another port than 443 is ours, too"
    assert said["proxy_http_version"] == ["1.1"] and said["proxy_buffering"] == ["off"]
    assert float(said["proxy_read_timeout"][0].removesuffix("s")) > 2 * PING_INTERVAL
    kept = {step["directive"]: step["args"] for step in upstream["block"]}
    assert float(kept["keepalive_timeout"][0].removesuffix("s")) < KEEP_ALIVE
    (most,) = [s["args"][0] for s in server["block"] if s["directive"] == "client_max_body_size"]
    assert int(most.removesuffix("m")) << 20 == GatewayConfig().max_upload_bytes


def test_the_collector_takes_what_is_sent() -> None:
    found = yaml.safe_load((DEPLOY / "collector.yaml").read_text("utf-8"))
    assert found["service"]["pipelines"].keys() == {"traces", "metrics"}
    for pipeline in found["service"]["pipelines"].values():
        for kind, names in pipeline.items():
            assert set(names) <= found[kind].keys()
    assert found["receivers"]["otlp"]["protocols"]["http"]["endpoint"].endswith(":4318")


def test_the_dashboard_shows_what_is_measured() -> None:
    board = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"lookhear_\w+", target["expr"])
    }
    assert len(asked) > 15 and asked <= metric_names()
    source = yaml.safe_load((DEPLOY / "grafana-sources.yaml").read_text("utf-8"))
    uids = {panel["datasource"]["uid"] for panel in board["panels"]}
    assert uids == {entry["uid"] for entry in source["datasources"]}
