"""`python -m benchmarks.camera`: half an hour of a live camera, and a question every minute.

A real gateway and engine over one WebSocket. The camera's clock is scripted: two frames a second by
their timestamps, sent as fast as they are taken; the picture changes every few seconds, and each
frame has noise of its own. After each minute of frames, and a pause as between two frames, comes a
question about what is to be seen now. Reports, by minute: seconds to the first text, tokens read,
resident memory of gateway and engine; and how many answers were right.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import psutil
from PIL import Image
from rich.console import Console
from rich.table import Table
from websockets.sync.client import ClientConnection, connect

from lookhear.bench import machine
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.commands.private_server import ServerProcess
from tools.recipes.scenes.clips import next_slide
from tools.recipes.scenes.drawing import Canvas
from tools.recipes.scenes.questions import Asker
from tools.recipes.scenes.scenes import Scene, draw_scene

FPS = 2
TASKS = ("colour", "count", "presence", "shape", "position")
Json = dict[str, Any]


@dataclass(slots=True)
class Minute:
    """first_text_s: from the question to the first text. read: prompt tokens that were not found in
    the cache. gateway_mib, engine_mib: resident."""

    minute: int
    task: str
    question: str
    expected: str
    answer: str
    first_text_s: float
    prompt: int
    read: int
    gateway_mib: float
    engine_mib: float

    @property
    def is_right(self) -> bool:
        """Whether the answer is the expected one, word for word."""
        return self.answer.strip() == self.expected


class Camera:
    """Frames by lot: a scene that changes a little every few seconds, or altogether."""

    def __init__(self, seed: int, height: int, width: int) -> None:
        self._rng = random.Random(seed)
        self._noise = np.random.default_rng(seed)
        self._size = height, width
        self.scene = Scene(())
        self._change(whole=True)

    def frames(self, count: int) -> Iterator[str]:
        """So many, as base64 JPEG."""
        for _ in range(count):
            if self._rng.random() < 1 / (4 * FPS):
                self._change(whole=self._rng.random() < 0.3)
            noise = self._noise.normal(0, 2, self._pixels.shape)
            noisy = (self._pixels + noise).clip(0, 255).astype(np.uint8)
            file = io.BytesIO()
            Image.fromarray(noisy).save(file, "JPEG", quality=88)
            yield base64.b64encode(file.getvalue()).decode()

    def question(self) -> tuple[str, str, str]:
        """Task, question and right answer about what is to be seen now."""
        while True:
            task = self._rng.choice(TASKS)
            asked = Asker(self.scene, self._rng).ask(task)
            if asked is not None:
                return task, asked.text, asked.answer_text

    def _change(self, whole: bool) -> None:
        height, width = self._size
        if whole or not self.scene.shapes:
            self.scene = draw_scene(self._rng, 4, 0.0, width / height)
        else:
            self.scene = next_slide(self._rng, self.scene, width / height)
        canvas = Canvas(self._rng, height, width, self.scene.things, plain=False)
        self._pixels = canvas.draw(self.scene.things).astype(np.float32)


class Session:
    """One realtime session on a socket."""

    def __init__(self, socket: ClientConnection, max_frames: int) -> None:
        self._socket = socket
        self._expect("session.created")
        camera = {"max_frames": max_frames}
        session = {"type": "realtime", "lookhear": {"camera": camera}}
        self._send({"type": "session.update", "session": session})
        self._expect("session.updated")

    def show(self, image: str, timestamp_ms: int) -> None:
        """One frame, as a data URL, with its time."""
        kind = "lookhear.input_video_frame.append"
        self._send({"type": kind, "image": image, "timestamp_ms": timestamp_ms})

    def settle(self) -> None:
        """Wait until all that was sent has been dealt with."""
        self._send({"type": "conversation.item.retrieve", "item_id": "item_none"})
        self._expect("error")

    def ask(self, question: str, *, forget: bool) -> tuple[str, float, Json]:
        """Answer, seconds to its first text, usage. forget: delete both afterwards, as a camera
        does that takes no part in a conversation."""
        content = [{"type": "input_text", "text": question}]
        item = {
            "id": f"item_{time.monotonic_ns()}",
            "type": "message",
            "role": "user",
            "content": content,
        }
        began = time.perf_counter()
        self._send({"type": "conversation.item.create", "item": item})
        self._send({"type": "response.create"})
        text, first, items = "", 0.0, [item["id"]]
        while True:
            event = self._read()
            match event["type"]:
                case "response.output_text.delta":
                    first = first or time.perf_counter() - began
                    text += event["delta"]
                case "response.output_item.added":
                    items.append(event["item"]["id"])
                case "response.done":
                    done = event["response"]
                    if done["status"] not in ("completed", "incomplete"):
                        raise SystemExit(f"the response failed: {done}")
                    for name in items if forget else ():
                        self._send({"type": "conversation.item.delete", "item_id": name})
                    return text, first, done["usage"]
                case "error":
                    raise SystemExit(f"the server refused: {event['error']}")

    def _expect(self, kind: str) -> Json:
        while (event := self._read())["type"] != kind:
            if event["type"] == "error":
                raise SystemExit(f"the server refused: {event['error']}")
        return event

    def _send(self, event: Json) -> None:
        self._socket.send(json.dumps(event))

    def _read(self) -> Json:
        event: Json = json.loads(self._socket.recv(timeout=120))
        return event


def watch(server: ServerProcess, options: argparse.Namespace) -> list[Minute]:
    """The whole run."""
    camera = Camera(options.seed, options.height, options.width)
    gateway = psutil.Process(server.pid)
    url = f"ws://127.0.0.1:{server.port}/v1/realtime"
    minutes: list[Minute] = []
    with connect(url, max_size=None) as socket:
        session = Session(socket, options.max_frames)
        for minute in range(1, options.minutes + 1):
            for i, image in enumerate(camera.frames(60 * FPS)):
                session.show(image, ((minute - 1) * 60 * FPS + i) * 1000 // FPS)
            session.settle()
            time.sleep(1 / FPS)
            task, question, expected = camera.question()
            answer, first, usage = session.ask(question, forget=not options.converse)
            cached = usage["input_token_details"]["cached_tokens"]
            engines = [child.memory_info().rss for child in gateway.children(recursive=True)]
            minutes.append(
                Minute(
                    minute, task, question, expected, answer, round(first, 4),
                    usage["input_tokens"], usage["input_tokens"] - cached,
                    round(gateway.memory_info().rss / 2**20, 1), round(sum(engines) / 2**20, 1),
                )
            )  # fmt: skip
    return minutes


def summary(minutes: list[Minute]) -> Json:
    """First and last ten minutes, the very first one apart: it warms caches."""
    part = max(1, (len(minutes) - 1) // 3)
    early, late = minutes[1 : 1 + part], minutes[-part:]

    def median(some: list[Minute], field: str) -> float:
        return float(statistics.median(getattr(minute, field) for minute in some))

    fields = ("first_text_s", "prompt", "read", "gateway_mib", "engine_mib")
    return {
        "right": sum(minute.is_right for minute in minutes),
        "asked": len(minutes),
        "early": {field: round(median(early, field), 4) for field in fields},
        "late": {field: round(median(late, field), 4) for field in fields},
        "late_to_early": {
            field: round(median(late, field) / max(1e-9, median(early, field)), 3)
            for field in fields
        },
    }


def table(minutes: list[Minute], about: Json) -> Table:
    """A line for each minute."""
    result = Table(title="a live camera, a question every minute", box=None, title_justify="left")
    for column in ("minute", "question", "answer", "first text s", "prompt", "read", "MiB"):
        result.add_column(column)
    for m in minutes:
        mark = "" if m.is_right else f"  (expected {m.expected})"
        memory = f"{m.gateway_mib:.0f} + {m.engine_mib:.0f}"
        cells = (f"{m.first_text_s:.3f}", str(m.prompt), str(m.read), memory)
        result.add_row(str(m.minute), m.question, m.answer + mark, *cells)
    result.caption = json.dumps(about)
    return result


def main(argv: list[str]) -> int:
    """Measures, prints and writes; exit status 0. ServerFailed."""
    parser = argparse.ArgumentParser(prog="benchmarks.camera", description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default="demo-qwen3-vl")
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--max-frames", type=int, default=4, help="kept in full, as many thinned")
    parser.add_argument("--converse", action="store_true", help="keep questions and answers")
    parser.add_argument("--height", type=int, default=240)
    parser.add_argument("--width", type=int, default=320)
    parser.add_argument("--seed", type=int, default=1)
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    about = machine.describe(["benchmarks.camera", *argv])
    with ServerProcess(0, ["--model", options.model]) as server:
        minutes = watch(server, options)
    result = summary(minutes)
    Console(highlight=False).print(table(minutes, result))
    lines = {**about, **result, "minutes": [asdict(minute) for minute in minutes]}
    write_result(options, "camera", lines)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
