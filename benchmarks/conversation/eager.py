"""How soon after a spoken question its answer begins, and whether anything of a discarded answer is
ever seen: `python -m benchmarks.conversation.eager`.

A real gateway, the demo models and one socket per speaker, in real time: a picture, then spoken
questions about it, by turns with eager answers and without. With --resumed a pause of 0.3 to 0.4 s
stands within each question, so that an answer is begun there which has to be thrown away; all are
eager then. Reports seconds from the end of the turn, as the client is told it, to the first text of
the answer, and from the last word; and what was seen that should not have been.

The demo model answers within milliseconds, so there is little to win. --grown puts one in its place
of the size of a Qwen3 and with random weights: what it says means nothing, only when it does.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import io
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from rich.console import Console
from rich.table import Table
from websockets.sync.client import ClientConnection, connect

from lookhear.bench import machine
from lookhear.bench.measures.metrics import summary
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.commands.private_server import ServerProcess
from lookhear.media.audio.decode import decode_file
from tools.random_checkpoints.qwen3_vl import build_grown_qwen3_vl

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "tests/data"
DEMO = ROOT / "tools/demo/lookhear_demo/qwen3_vl"
RATE = 16000
CHUNK = 320  # samples: 20 ms, as browsers send them
TURNS = 10  # of a session
ANSWER_TOKENS = 16
HIDDEN = {"0.6B": 1024, "1.7B": 2048}  # of the text models of Qwen3


def grown(size: str) -> dict[str, int]:
    """That text model, but for its vocabulary and the size of its heads."""
    return {
        "hidden_size": HIDDEN[size],
        "intermediate_size": 3 * HIDDEN[size],
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
    }


PATIENCE = 30.0  # seconds without an answer that make a turn a failure
Pcm = NDArray[np.int16]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """pcm: at RATE, its last word ends with it. middle: a sample between two words."""

    pcm: Pcm
    middle: int


@dataclass(slots=True)
class Seen:
    """What the turns of one condition came to. Times in seconds."""

    turns: int = 0
    unanswered: int = 0
    wrong: int = 0  # frames of answers while somebody spoke, or of such that were then taken back
    begun: int = 0  # pauses within questions that were taken for their ends
    after_decision: list[float] = field(default_factory=list)
    after_speech: list[float] = field(default_factory=list)

    def add(self, other: Seen) -> None:
        """Both together."""
        self.turns += other.turns
        self.unanswered += other.unanswered
        self.wrong += other.wrong
        self.begun += other.begun
        self.after_decision += other.after_decision
        self.after_speech += other.after_speech

    def numbers(self) -> Json:
        """For the result."""
        return {
            "turns": self.turns,
            "unanswered": self.unanswered,
            "visible_of_discarded_answers": self.wrong,
            "ends_supposed_within_questions": self.begun,
            "first_text_after_decision_s": summary(self.after_decision),
            "first_text_after_speech_s": summary(self.after_speech),
        }


def questions() -> list[Question]:
    """Those of the test recordings."""
    waves: dict[str, Pcm] = {}
    found = []
    for one in json.loads((RECORDINGS / "questions.json").read_text("utf-8")):
        if one["file"] not in waves:
            with (RECORDINGS / one["file"]).open("rb") as file:
                samples = decode_file(file, RATE, None).samples
            waves[one["file"]] = (np.clip(samples, -1, 1) * 32767).astype(np.int16)
        begin = int((one["start_s"] - 0.1) * RATE)
        cut = one["words"][len(one["words"]) // 2]["start_s"]
        pcm = waves[one["file"]][begin : int(one["end_s"] * RATE)]
        found.append(Question(pcm, int(cut * RATE) - begin))
    return found


class Speaker:
    """One session on a socket, whose frames are judged as they come."""

    def __init__(
        self, socket: ClientConnection, number: int, eager: bool, max_tokens: int = ANSWER_TOKENS
    ) -> None:
        """number: its own. Whoever asks about another's picture finds what that one had read."""
        self._socket = socket
        self.seen = Seen()
        self._speaking = False
        self._decided = self._first = self._done = 0.0
        session = {
            "type": "realtime",
            "audio": {"input": {"format": {"type": "audio/pcm", "rate": RATE}}},
            "lookhear": {"eager": eager},
            "max_output_tokens": max_tokens,
        }
        self._send({"type": "session.update", "session": session})
        shade = 255 - number % 64, 255 - number // 64 % 64, 255
        picture = Image.new("RGB", (160, 120), shade)
        ImageDraw.Draw(picture).rectangle((50, 30, 110, 90), fill="blue")
        file = io.BytesIO()
        picture.save(file, "PNG")
        url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
        content = [{"type": "input_image", "image_url": url}]
        item = {"type": "message", "role": "user", "content": content}
        self._send({"type": "conversation.item.create", "item": item})
        self._say(np.zeros(RATE, np.int16))

    def ask(self, question: Question, pause: float) -> None:
        """And wait for the answer. pause: seconds in its middle."""
        self._decided = self._first = self._done = 0.0
        if pause:
            self._say(question.pcm[: question.middle])
            self._say(np.zeros(int(pause * RATE), np.int16))
            self._say(question.pcm[question.middle :])
        else:
            self._say(question.pcm)
        spoken = time.perf_counter()
        while not self._done and time.perf_counter() < spoken + PATIENCE:
            self._say(np.zeros(CHUNK, np.int16))
        self.seen.turns += 1
        if not (self._done and self._first and self._decided):
            self.seen.unanswered += 1
            return
        self.seen.after_decision.append(self._first - self._decided)
        self.seen.after_speech.append(self._first - spoken)

    def _say(self, pcm: Pcm) -> None:
        """In real time."""
        due = time.perf_counter()
        for start in range(0, len(pcm), CHUNK):
            audio = base64.b64encode(pcm[start : start + CHUNK].tobytes()).decode()
            self._send({"type": "input_audio_buffer.append", "audio": audio})
            due += CHUNK / RATE
            while (left := due - time.perf_counter()) > 0:
                try:
                    self._hear(json.loads(self._socket.recv(timeout=left)))
                except TimeoutError:
                    break

    def _hear(self, frame: Json) -> None:
        now, kind = time.perf_counter(), frame["type"]
        if kind == "input_audio_buffer.speech_started":
            self._speaking = True
        elif kind == "input_audio_buffer.speech_stopped":
            self._speaking, self._decided, self._first = False, now, 0.0
        elif kind == "lookhear.eager" and frame["status"] == "resumed":
            self.seen.begun += 1
        elif kind.startswith("response."):
            cancelled = kind == "response.done" and frame["response"]["status"] == "cancelled"
            # A barge-in cuts off an answer in the moment it begins, and that is told.
            self.seen.wrong += self._speaking and not cancelled
            if kind == "response.output_text.delta":
                self._first = self._first or now
            elif kind == "response.done" and not cancelled:
                self._done = now

    def _send(self, event: Json) -> None:
        self._socket.send(json.dumps(event))


def talk(
    port: int, number: int, asked: Sequence[Question], eager: bool, pauses: Sequence[float]
) -> Seen:
    """One session."""
    with connect(f"ws://127.0.0.1:{port}/v1/realtime?model=answers") as socket:
        speaker = Speaker(socket, number, eager)
        for question, pause in zip(asked, pauses, strict=True):
            speaker.ask(question, pause)
    return speaker.seen


def sessions(options: argparse.Namespace) -> Iterator[tuple[list[Question], list[float]]]:
    """What each pair of sessions says."""
    draw, all_questions = random.Random(options.seed), questions()
    for done in range(0, options.turns, TURNS):
        count = min(TURNS, options.turns - done)
        pauses = [draw.uniform(0.3, 0.4) if options.resumed else 0.0 for _ in range(count)]
        yield draw.choices(all_questions, k=count), pauses


def main(argv: list[str]) -> int:
    """Measures, prints and writes; exit status 1 if anything was seen too soon. ServerFailed."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.conversation.eager", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--turns", type=int, default=100, help="of each of the two conditions")
    parser.add_argument("--speakers", type=int, default=1, help="at once")
    parser.add_argument("--resumed", action="store_true", help="a pause within each question")
    parser.add_argument("--grown", choices=HIDDEN, help="a model of this size answers")
    parser.add_argument("--seed", type=int, default=1)
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    about = machine.describe(["benchmarks.conversation.eager", *argv])
    found = {True: Seen()} if options.resumed else {True: Seen(), False: Seen()}
    with contextlib.ExitStack() as stack:
        answering = "demo-qwen3-vl"
        if options.grown:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "grown"
            build_grown_qwen3_vl(folder, DEMO, **grown(options.grown))
            answering = str(folder)
        models = ["--model", "demo-qwen3-asr", "--model", f"answers={answering}"]
        server = stack.enter_context(ServerProcess(0, models))
        pool = stack.enter_context(ThreadPoolExecutor(options.speakers))
        jobs = [
            (eager, pool.submit(talk, server.port, 2 * number + eager, asked, eager, pauses))
            for number, (asked, pauses) in enumerate(sessions(options))
            for eager in found
        ]
        for eager, job in jobs:
            found[eager].add(job.result())
    results = {"eager" if eager else "without": seen.numbers() for eager, seen in found.items()}
    table = Table(title="from speech to the answer's first text", box=None, title_justify="left")
    for column in (
        "",
        "turns",
        "after the decision, p50 s",
        "after speech, p50 s",
        "seen too soon",
    ):
        table.add_column(column)
    for name, one in results.items():
        p50 = [one[f"first_text_after_{what}_s"].get("p50") for what in ("decision", "speech")]
        wrong = one["visible_of_discarded_answers"]
        table.add_row(name, str(one["turns"]), *map(str, p50), str(wrong))
    Console(highlight=False).print(table)
    name = "eager-resumed" if options.resumed else "eager"
    write_result(options, name, {**about, **results})
    return int(any(seen.wrong for seen in found.values()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
