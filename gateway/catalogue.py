"""Which models there are: packaged, downloaded, or served elsewhere."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

# `model_type` of the checkpoints that the engine runs, and what people call them.
SUPPORTED = {
    "whisper": "Whisper",
    "qwen3": "Qwen3",
    "qwen3_asr": "Qwen3-ASR",
    "qwen3_vl": "Qwen3-VL",
}
KEY_HINT = "it goes to --api-key or into LOOKHEAR_API_KEY"
TIMEOUT = 10.0  # seconds to wait for another server


@dataclass(frozen=True, slots=True)
class Row:
    """A model is a row of the table."""

    name: str
    kind: str
    size: str
    where: str


def packaged_folder() -> Path | None:
    """Where the packaged checkpoints and recordings lie; None without lookhear-demo."""
    spec = find_spec("lookhear_demo")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def packaged() -> list[Row]:
    """List the checkpoints of lookhear-demo, demo-whisper first."""
    folder = packaged_folder()
    if folder is None or not folder.is_dir():
        return []
    return [
        Row(_packaged_name(path.parent), _model_type(path), _size(path.parent), "packaged")
        for path in sorted(folder.glob("*/config.json"), reverse=True)  # demo-whisper first
    ]


def _packaged_name(folder: Path) -> str:
    """The folder qwen3_asr is served as demo-qwen3-asr."""
    return f"demo-{folder.name.replace('_', '-')}"


def is_packaged(model: str) -> bool:
    """Whether it is the name of a packaged checkpoint."""
    return any(row.name == model for row in packaged())


def downloaded() -> list[Row]:
    """What the Hugging Face cache of this machine holds that we can run."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        cache = scan_cache_dir()
    except CacheNotFound:
        return []
    rows = []
    for repo in sorted(cache.repos, key=lambda repo: repo.repo_id):
        kinds = {_model_type(path) for path in _configs(repo)}
        for kind in sorted(kind for kind in kinds if kind in SUPPORTED):
            rows.append(Row(repo.repo_id, kind, repo.size_on_disk_str, "downloaded"))
    return rows


def _configs(repo: Any) -> Iterator[Path]:
    for revision in repo.revisions:
        for file in revision.files:
            if file.file_name == "config.json":
                yield file.file_path


def similar(model: str) -> str | None:
    """Find the packaged or downloaded model that an unknown name was probably to be."""
    if Path(model).is_dir():
        return None
    names = [row.name for row in (*packaged(), *downloaded())]
    found = [] if model in names else get_close_matches(model, names, n=1)
    return found[0] if found else None


def served(server: str, api_key: str | None) -> list[Row]:
    """The models of a running server. Raises OSError or ValueError."""
    base = server.rstrip("/").removesuffix("/v1")
    for web_socket, plain in (("ws://", "http://"), ("wss://", "https://")):
        if base.startswith(web_socket):
            base = plain + base.removeprefix(web_socket)
    if not base.startswith(("http://", "https://")):
        raise ValueError(f"expected a URL like http://127.0.0.1:8000, got {server!r}")
    request = urllib.request.Request(f"{base}/v1/models")
    if api_key:
        request.add_header("Authorization", f"Bearer {api_key}")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            data = json.load(response)["data"]
        return [
            Row(
                m["id"],
                _family(m.get("architecture")),
                _parameters(m.get("parameters")),
                "served" if m is not data[0] or len(data) == 1 else "served, the default",
            )
            for m in data
        ]
    except urllib.error.HTTPError as error:
        with error:
            raise ValueError(_refusal(error)) from None
    except urllib.error.URLError as error:
        reason = error.reason
        said = reason.strerror if isinstance(reason, OSError) else None
        raise ValueError(said or str(reason)) from None
    except HTTPException as error:
        raise ValueError(f"expected HTTP, got {str(error).strip()!r}") from None
    except (KeyError, TypeError) as error:
        raise ValueError(f"expected a list of models, got something else ({error})") from None


def _refusal(error: urllib.error.HTTPError) -> str:
    """What the server says of a key that is missing or wrong, or just the status."""
    if error.code == 401:
        try:
            return f"{json.load(error)['error']['message']}; {KEY_HINT}"
        except (OSError, ValueError, KeyError, TypeError):
            pass
    return f"it answered {error.code} {error.reason}"


def table(rows: Sequence[Row], title: str | None) -> Table:
    """Lay out what `lookhear models` prints."""
    named = None if title is None else Text(title)  # brackets are no markup here
    result = Table(title=named, box=None, pad_edge=False, title_justify="left")
    for column in ("model", "kind", "size", "where"):
        result.add_column(column)
    for row in rows:
        result.add_row(*(Text(cell) for cell in (row.name, row.kind, row.size, row.where)))
    return result


def _model_type(config: Path) -> str:
    """ "?" if the file does not say."""
    try:
        return str(json.loads(config.read_text())["model_type"])
    except (OSError, ValueError, KeyError, TypeError):
        return "?"


def _family(architecture: object) -> str:
    """WhisperForConditionalGeneration -> Whisper; other servers do not say."""
    return str(architecture).partition("For")[0] if architecture else "?"


def _size(folder: Path) -> str:
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{total / 1e6:.0f} MB"


def _parameters(count: object) -> str:
    return f"{count / 1e6:.1f} M parameters" if isinstance(count, int) and count else "?"
