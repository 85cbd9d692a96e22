"""Prometheus metrics of one gateway, in a registry of its own; of several workers together, in the
files of prometheus_client's multiprocess mode, which outlive whoever wrote them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from lookhear.engine.client.client import EngineState, Recovery
from lookhear.engine.messages import LiveLoad, Pong, RequestDone
from lookhear.gateway.telemetry.number_files import reserve_files

_SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
_LAGS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_WAITS = (0.001, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
Together = Literal["livesum", "livemax", "sum"]
_RECOVERY: tuple[tuple[str, str, Together], ...] = (
    ("moved", "Sessions that went on with another engine since the start", "sum"),
    ("lost", "Sessions that were told of their engine's death since the start", "sum"),
    ("held_bytes", "Audio and pictures kept now, should an engine die", "livesum"),
    ("forgotten_seconds", "Audio that was not kept, being too much, since the start", "sum"),
)
CLOSE_CODES = (1000, 1001, 1005, 1006, 1009, 1011, 1012, 1013)


# Where prometheus_client looks, when it is imported, for the folder that processes share.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


class Metrics:
    """Names are `lookhear_*`; times are seconds. folder: that all workers share, named by
    `FOLDER_VARIABLE`; None: this process is alone."""

    def __init__(self, folder: Path | None = None) -> None:
        if folder is not None:
            reserve_files()
        self.registry = CollectorRegistry()
        self._folder = folder
        self._shown: set[tuple[Gauge, tuple[str, ...]]] = set()  # of engines, with their labels

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"lookhear_{name}", text, labels, registry=self.registry)

        def gauge(name: str, text: str, *labels: str, together: Together = "livesum") -> Gauge:
            """together: what it is of several workers; of those that are alive, if it is `live`."""
            name = f"lookhear_{name}"
            return Gauge(name, text, labels, registry=self.registry, multiprocess_mode=together)

        def seconds(
            name: str, text: str, buckets: Sequence[float] = _SECONDS, *labels: str
        ) -> Histogram:
            name = f"lookhear_{name}_seconds"
            return Histogram(name, text, labels, registry=self.registry, buckets=buckets)

        self.sessions_active = gauge("sessions_active", "Realtime sessions open now")
        away = "Realtime sessions that wait for their client to come back"
        self.sessions_detached = gauge("sessions_detached", away)
        text = "Clients that were away: resumed, or expired (did not come back)"
        self.resumptions = counter("resumptions", text, "outcome")
        self.sessions = counter("sessions", "Realtime sessions ended, by close code", "code")
        self.draining = gauge("draining", "Gateway processes that drain: they are to end")
        text = "Sessions open when a drain began: finished in time, or cut off at its end"
        self.drained = counter("drained_sessions", text, "outcome")
        self.refused = counter("refused", "Connections and requests refused", "code")
        self.turns = counter("turns", "Turns transcribed, by outcome", "outcome")
        self.audio_seconds = counter("audio_seconds", "Audio received, by way in", "way")
        self._realtime_audio = self.audio_seconds.labels("realtime")
        self.commit_lag = seconds("commit_lag", "From the commit of a turn to its transcript")
        lateness = "How late the event loop was, looked at every 50 ms"
        self.loop_lag = seconds("loop_lag", lateness, _LAGS)
        text = "Pauses at which it was asked whether the turn is over by its sound"
        self.turn_questions = counter("turn_questions", text, "outcome")
        text = "For one batch of those"
        self.turn_question = seconds("turn_question", text, _LAGS)
        text = "Turns that ended by voice, by what decided: silence, words or sound"
        self.turn_ends = counter("turn_ends", text, "rule")
        self.answers = counter("answers", "Answers of chats, by how they ended", "outcome")
        text = "How long questions over HTTP waited until an engine had a place for their answers"
        self.answer_wait = seconds("answer_wait", text, _WAITS)
        first = "From a question to the first token of its answer"
        self.first_token = seconds("first_token", first)
        between = "Between two pieces of text of one answer"
        self.inter_token = seconds("inter_token", between, _LAGS)
        text = "How long files waited until one of the decoders was free"
        self.decoding_wait = seconds("decoding_wait", text, _WAITS)
        text = "Files given to decoders, by kind and by how it ended"
        self.decoding_jobs = counter("decoding_jobs", text, "kind", "outcome")
        text = "How long addresses waited until they could be fetched"
        self.fetch_wait = seconds("fetch_wait", text, _WAITS)
        self.errors = counter("errors", "Error events sent to clients, by code", "code")
        paths = "HTTP requests, by path and status"
        self.requests = counter("http_requests", paths, "path", "status")
        up = "1 while that engine of the model is up"
        self.engine_ready = gauge("engine_ready", up, "model", "replica")
        places = "Sessions that could still begin to speak to the model"
        self._places = gauge("live_places", places, "model")
        speakers = "Sessions with a place to speak to the model"
        self._speakers = gauge("live_speakers", speakers, "model")
        lag = "p95 of the commit lag that the load would make with one speaker more"
        # Connections are given to workers without a look at it.
        self._predicted_lag = gauge(
            "predicted_commit_lag_seconds", lag, "model", together="livemax"
        )
        cost = "What the tick of one speaker takes an engine now, alone"
        self._tick_cost = gauge("tick_cost_seconds", cost, "model", together="livemax")
        text = "How long ticks, windows of files and answers waited until an engine began"
        self._request_wait = seconds("engine_request_wait", text, _LAGS, "model", "priority")
        text = "How long they took from there, with what was computed for others meanwhile"
        self._request = seconds("engine_request", text, _LAGS, "model", "priority")
        self._engines: dict[str, Gauge] = {
            name: gauge(f"engine_{name}", text, "model", "replica")
            for name, text in (
                ("steps", "Steps taken since its start"),
                ("requests", "Requests (ticks and windows of files) done since its start"),
                ("busy_seconds", "Time spent in steps since its start"),
                ("decoder_passes", "Decoder passes of the requests done since its start"),
                ("drafted_tokens", "Draft tokens offered since its start"),
                ("accepted_tokens", "Draft tokens kept since its start"),
                ("draft_passes", "Passes of the draft model since its start"),
                ("prompt_tokens_read", "Prompt tokens computed since its start"),
                ("prompt_tokens_found", "Prompt tokens found in the prefix cache since its start"),
                ("media_tokens_encoded", "Tokens of audio and pictures encoded since its start"),
                ("free_blocks", "Blocks of the paged cache that hold nothing now"),
                ("cached_blocks", "Blocks that hold a prefix nobody is using now"),
                ("evicted_blocks", "Cached blocks given to somebody else since its start"),
                ("dropped_pins", "Sessions whose blocks were taken between ticks since its start"),
                ("media_awaited", "Media that encoders apart are asked for now"),
                ("encoder_cache_bytes", "Encoder outputs held now"),
                ("encoder_cache_hits", "Encoder outputs found since its start"),
                ("encoder_cache_misses", "Encoder outputs not found since its start"),
                ("encoder_cache_evictions", "Encoder outputs dropped for others since its start"),
                ("graphs", "Captured steps"),
                ("graph_passes", "Passes that were replayed since its start"),
                ("eager_passes", "Passes that were not, for want of a graph or of a GPU"),
                ("live_turns", "Turns open now"),
                ("waiting", "Requests waiting now"),
            )
        }
        self._recovery: dict[str, Gauge] = {
            name: gauge(f"recovery_{name}", text, together=together)
            for name, text, together in _RECOVERY
        }

    def heard(self, seconds: float) -> None:
        """Audio of a live session."""
        self._realtime_audio.inc(seconds)

    def computed(self, model: str, done: RequestDone) -> None:
        """A request of an engine of that model."""
        self._request_wait.labels(model, done.priority).observe(done.waited)
        self._request.labels(model, done.priority).observe(done.took)

    def see_engines(
        self,
        states: Sequence[EngineState],
        stats: Mapping[str, Pong],
        loads: Mapping[str, LiveLoad],
        recovery: Recovery,
    ) -> None:
        """Take over how the engines are, what each last said of its work, by its label, what more
        speakers would do, by model, and what came of engines that died."""
        before, self._shown = self._shown, set()
        for model, load in loads.items():
            self._show(self._places, load.places, model)
            self._show(self._speakers, load.speakers, model)
            self._show(self._predicted_lag, load.lag, model)
            self._show(self._tick_cost, load.tick, model)
        for state in states:
            number = str(state.replica)
            own = (state.model, f"encoder-{number}" if state.is_encoder else number)
            self._show(self.engine_ready, state.state == "ready", *own)
            if (pong := stats.get(state.label)) is None:
                continue
            for name, value in {**pong.counters, "busy_seconds": pong.busy_seconds}.items():
                if name in self._engines:
                    self._show(self._engines[name], value, *own)
        for name, gauge in self._recovery.items():
            gauge.set(getattr(recovery, name))
        for gauge, labels in before - self._shown:
            self._forget(gauge, labels)

    def _show(self, gauge: Gauge, value: float, *labels: str) -> None:
        gauge.labels(*labels).set(value)
        self._shown.add((gauge, labels))

    def _forget(self, gauge: Gauge, labels: tuple[str, ...]) -> None:
        """An engine that ended has no numbers. From files nothing can be taken out: there they are
        none, and of a model, to which other workers add theirs, nothing."""
        if self._folder is None:
            gauge.remove(*labels)
        else:
            is_of_engine = len(labels) == 2  # its model and its own number
            gauge.labels(*labels).set(math.nan if is_of_engine else 0.0)

    def count_session(self, close_code: int) -> None:
        """Clients may close with any code; the unusual ones share a label."""
        label = str(close_code) if close_code in CLOSE_CODES else "other"
        self.sessions.labels(label).inc()

    def render(self) -> bytes:
        """The text format that Prometheus scrapes."""
        if self._folder is None:
            return generate_latest(self.registry)
        whole = CollectorRegistry()
        whole.register(_OfAll(self._folder))
        return generate_latest(whole)


class _OfAll(Collector):
    """The numbers of all workers, by their files."""

    def __init__(self, folder: Path) -> None:
        collector: Any = MultiProcessCollector
        self._files: Collector = collector(None, str(folder))

    def collect(self) -> Iterator[Metric]:
        """Without those of engines that ended."""
        for family in self._files.collect():
            family.samples = [s for s in family.samples if not math.isnan(s.value)]
            yield family


def worker_ended(pid: int, folder: Path) -> None:
    """What was true of that process only while it lived is taken out; what it counted stays."""
    mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]
