"""How soon an answer ends when somebody speaks: `python -m benchmarks.conversation.barge_in`.

A real gateway and one socket, in real time. A spoken question is answered by a model of the size of
a Qwen3 with random weights, which would go on for long; while its text comes, the next question is
spoken. Reports seconds from `speech_started` to the `response.done` of the cancelled answer, both
as the client hears of them, and from the first sample of that question, which includes what the
voice detector needs; and how many frames of an answer came behind its end.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from websockets.sync.client import ClientConnection, connect

from benchmarks.conversation.eager import (
    CHUNK,
    DEMO,
    HIDDEN,
    PATIENCE,
    RATE,
    Json,
    Question,
    Speaker,
    grown,
    questions,
)
from lookhear.bench import machine
from lookhear.bench.measures.metrics import summary
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.commands.private_server import ServerProcess
from tools.random_checkpoints.qwen3_vl import build_grown_qwen3_vl

LONG = 2048  # tokens of an answer, so that none ends before it is cut off


class Interrupter(Speaker):
    """Speaks while it is answered. Times in seconds."""

    def __init__(self, socket: ClientConnection) -> None:
        super().__init__(socket, 0, eager=False, max_tokens=LONG)
        self.after_start: list[float] = []
        self.after_speech: list[float] = []
        self.uncut = 0  # answers that went on, or ended by themselves
        self.late = 0  # frames of an answer behind its end
        self._started = self._cut = 0.0
        self._is_open = False

    def speak(self, asked: Sequence[Question], waits: Sequence[float]) -> None:
        """One question after another, each so long after the first text of the answer before it."""
        self._say(asked[0].pcm)
        for question, wait in zip(asked[1:], waits, strict=True):
            self._first, spoken = 0.0, time.perf_counter()
            while not self._first and time.perf_counter() < spoken + PATIENCE:
                self._say(np.zeros(CHUNK, np.int16))
            self._say(np.zeros(int(wait * RATE), np.int16))
            self._started = self._cut = 0.0
            begin = time.perf_counter()
            self._say(question.pcm)
            if not (self._started and self._cut >= self._started):
                self.uncut += 1
                continue
            self.after_start.append(self._cut - self._started)
            self.after_speech.append(self._cut - begin)

    def _hear(self, frame: Json) -> None:
        now, kind = time.perf_counter(), frame["type"]
        if kind == "input_audio_buffer.speech_started":
            self._started = self._started or now
        elif kind == "response.created":
            self._is_open = True
        elif kind == "response.done":
            self._is_open = False
            if frame["response"]["status"] == "cancelled":
                self._cut = self._cut or now
        elif kind.startswith("response."):
            self.late += not self._is_open
        super()._hear(frame)


def main(argv: list[str]) -> int:
    """Measures, prints and writes; exit status 1 if an answer went on. ServerFailed."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.conversation.barge_in", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--turns", type=int, default=40, help="answers that are cut off")
    parser.add_argument("--grown", choices=HIDDEN, default="0.6B", help="size of who answers")
    parser.add_argument("--seed", type=int, default=1)
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    about = machine.describe(["benchmarks.conversation.barge_in", *argv])
    draw = random.Random(options.seed)
    asked = draw.choices(questions(), k=options.turns + 1)
    waits = [draw.uniform(0.2, 1.0) for _ in range(options.turns)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "grown"
        build_grown_qwen3_vl(folder, DEMO, **grown(options.grown))
        models = ["--model", "demo-qwen3-asr", "--model", f"answers={folder}"]
        with (
            ServerProcess(0, models) as server,
            connect(f"ws://127.0.0.1:{server.port}/v1/realtime?model=answers") as socket,
        ):
            speaker = Interrupter(socket)
            speaker.speak(asked, waits)
    result = {
        "turns": options.turns,
        "uncut": speaker.uncut,
        "frames_behind_the_end": speaker.late,
        "cancelled_after_speech_started_s": summary(speaker.after_start),
        "cancelled_after_first_sample_s": summary(speaker.after_speech),
    }
    Console(highlight=False).print(result)
    write_result(options, "barge-in", {**about, **result})
    return int(bool(speaker.uncut or speaker.late))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
