"""How a checkpoint wants to be sampled, and what a client's settings make of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.core.request import RequestError
from lookhear.engine.messages import AnswerSettings
from lookhear.engine.sampling.params import SamplingParams


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """As generation_config.json has them; greedy if it does not say that it samples."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: float = 0  # a whole number
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    @classmethod
    def from_folder(cls, folder: Path) -> GenerationDefaults:
        """Raises `CheckpointError` if a value is none."""
        path = folder / "generation_config.json"
        config = read_json(path, required=False)
        values = {}
        for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty"):
            value = config.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise CheckpointError.of(path, name, "a number", value)
            values[name] = value
        if not config.get("do_sample", False):
            for name in ("top_p", "top_k", "min_p"):
                values.pop(name, None)
            values["temperature"] = 0.0
        elif "temperature" not in values:
            values["temperature"] = 1.0
        return cls(**values)

    def sampling(
        self, settings: AnswerSettings, max_tokens: int, end_tokens: tuple[int, ...], vocab: int
    ) -> SamplingParams:
        """max_tokens: of this answer. end_tokens: of the checkpoint. Raises `RequestError`, whose
        message begins with the setting."""

        def chosen(name: str) -> float:
            value: float | None = getattr(settings, name)
            default: float = getattr(self, name)
            return default if value is None else value

        stop_tokens = dict.fromkeys(settings.stop_tokens)
        if not settings.ignore_end:
            stop_tokens = {**dict.fromkeys(end_tokens), **stop_tokens}
        try:
            bias = tuple((int(token), value) for token, value in settings.logit_bias.items())
        except ValueError:
            raise RequestError(
                "invalid_value",
                f"logit_bias: expected token ids as keys, got {list(settings.logit_bias)}",
            ) from None
        try:
            params = SamplingParams(
                temperature=chosen("temperature"),
                top_k=max(0, int(chosen("top_k"))),  # -1 is "off" to some
                top_p=chosen("top_p"),
                min_p=chosen("min_p"),
                repetition_penalty=chosen("repetition_penalty"),
                presence_penalty=settings.presence_penalty,
                frequency_penalty=settings.frequency_penalty,
                logit_bias=bias,
                stop_tokens=tuple(stop_tokens),
                stop=tuple(settings.stop),
                min_tokens=min(settings.min_tokens, max_tokens),
                max_tokens=max_tokens,
                seed=settings.seed,
                logprobs=settings.logprobs,
            )
            params.validate(vocab)
        except ValueError as error:
            raise RequestError("invalid_value", str(error)) from None
        return params
