"""In which forms of fewer bits a checkpoint's matrices may be stored, by its config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Of compressed-tensors.
FORMATS = ("float-quantized", "int-quantized", "naive-quantized", "pack-quantized")
BITS = (2, 4, 8)  # of integers that share a word
LOADS = (
    f"fp8 (fine-grained), compressed-tensors ({', '.join(FORMATS)}), gptq (gptq, gptq_v2; 2, 4 "
    "or 8 bits), awq (gemm, 4 bits), bitsandbytes (4 or 8 bits)"
)


def refusal(config: Mapping[str, Any]) -> str | None:
    """Why a checkpoint that is quantised so cannot be read; None: it can, or is not quantised."""
    settings = config.get("quantization_config")
    if settings is None:
        return None
    if not isinstance(settings, dict):
        return f"quantization_config: expected an object, got {settings!r}"
    method = settings.get("quant_method")
    if method in ("fp8", "bitsandbytes"):
        return None
    form: str | None = ""
    if method == "compressed-tensors":
        form = next((form for form in _formats(settings) if form not in FORMATS), None)
    elif method == "gptq":
        form = _not_read(settings, gptq_form(settings), ("gptq", "gptq_v2"), BITS)
    elif method == "awq":
        version = settings.get("version") or settings.get("checkpoint_format") or "gemm"
        is_others = settings.get("backend") == "llm-awq"
        form = _not_read(
            settings, "llm-awq" if is_others else str(version).lower(), ("gemm",), (4,)
        )
    if form is None:
        return None
    got = f"{method!r} ({form})" if form else repr(method)
    return f"quantization_config: expected {LOADS}, or none; got {got}"


def gptq_form(settings: Mapping[str, Any]) -> str:
    """Which of GPTQ's it is: `gptq` has its zeros one smaller than `gptq_v2`."""
    if settings.get("is_marlin_format"):  # as AutoGPTQ told it before it had a name
        return "marlin"
    return str(settings.get("checkpoint_format") or settings.get("format") or "gptq")


def _formats(settings: Mapping[str, Any]) -> list[str]:
    """Of compressed-tensors; of each group of modules where they differ."""
    whole, groups = str(settings.get("format")), settings.get("config_groups")
    if whole != "mixed-precision" or not isinstance(groups, dict) or not groups:
        return [whole]
    return [str(g.get("format")) if isinstance(g, dict) else repr(g) for g in groups.values()]


def _not_read(
    settings: Mapping[str, Any], form: str, forms: tuple[str, ...], known: tuple[int, ...]
) -> str | None:
    """What of such settings cannot be read, in words; None: all can."""
    bits, size = settings.get("bits"), settings.get("group_size", 128)
    if form not in forms:
        return form
    if type(bits) is not int or bits not in known:
        return f"bits {bits!r}"
    if type(size) is not int or not (size == -1 or size > 0):
        return f"group_size {size!r}"
    return None
