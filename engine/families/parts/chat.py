"""What families that chat, or read for vectors and scores, have in common: desks, runner, caches,
sized by a configuration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from lookhear.engine.adapters.adapters import Adapters
from lookhear.engine.chat.desk import ChatDesk
from lookhear.engine.chat.embeddings import EmbeddingsStore
from lookhear.engine.chat.generation import GenerationDefaults
from lookhear.engine.chat.pictures import HeldPictures
from lookhear.engine.chat.prompt import ChatPrompter
from lookhear.engine.chat.recordings import RecordingStore
from lookhear.engine.chat.remote_tower import RemoteTower
from lookhear.engine.chat.template import ChatTemplate
from lookhear.engine.checkpoints.loader import CheckpointError, Loading, read_json
from lookhear.engine.checkpoints.sentence_modules import SentenceModules
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import Desk
from lookhear.engine.core.desks import Desks
from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.eagle3.config import LargeModel, is_head
from lookhear.engine.eagle3.head import Eagle3Head
from lookhear.engine.eagle3.passes import HeadPasses
from lookhear.engine.encoding.qwen3_vl import Qwen3VLLanguage
from lookhear.engine.families.family import (
    Parts,
    acceleration_of,
    beside_linears,
    cache_dtype,
    chosen_dtype,
    half_decoder,
    linear_dtype,
)
from lookhear.engine.families.parts.adapting import with_adapters
from lookhear.engine.families.parts.capacity import bytes_per_token, num_blocks
from lookhear.engine.families.parts.pooling import pooling_desk
from lookhear.engine.messages import EncodingFailed, MediumEncoded, StartPooling
from lookhear.engine.models.qwen3 import Qwen3ChatModel, Qwen3Model
from lookhear.engine.models.qwen3_omni import Qwen3OmniModel
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.draft_model import DraftNetwork, ModelDrafter, SmallModel
from lookhear.engine.paged.drafter import Drafter, LookupDrafter
from lookhear.engine.paged.media import MediaEncoder
from lookhear.engine.paged.pass_costs import measured_costs
from lookhear.engine.paged.runner import PagedRunner
from lookhear.engine.smolvlm.model import SmolVlmModel
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.engine.voxtral_chat.model import VoxtralChatModel

# Embeddings of pictures that no block of the cache has any more; a token of them is wide.
ENCODER_CACHE_BYTES = 128 * 2**20
# Visual tokens encoded in one step at most, unless a single request has more.
ENCODER_BUDGET_TOKENS = 2048


SEEING = ("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration")
DRAFTED_BY = ("Qwen3ForCausalLM", "Qwen3MoeForCausalLM", *SEEING)


class MediaLoading(Loading, total=False):
    """encoder_dtype: of what reads media. half: see `half_decoder`."""

    encoder_dtype: torch.dtype
    half: bool


def media_loading(
    config: EngineConfig,
    folder: Path,
    device: str,
    progress: Callable[[float], None],
    linears: torch.dtype | None = None,
) -> MediaLoading:
    """How a model that reads media is loaded. Where its decoder stays in float32 because it is
    small, what is seen and heard still is much work. linears: as `linear_dtype` has it."""
    other = beside_linears(linears)
    # Products of int8 are the decoder's alone.
    seen = chosen_dtype("auto", device) if linears == torch.qint8 else other
    return {
        "dtype": other or chosen_dtype(config.dtype, device, folder),
        "encoder_dtype": seen or chosen_dtype(config.dtype, device),
        "half": half_decoder(config.dtype, device, folder),
        "device": device,
        "progress": progress,
    }


def draft_decoder(
    folder: Path, large: Path, config: EngineConfig, decoder: Qwen3Model
) -> Qwen3Model:
    """That of a smaller model; its eyes, if it has any, are not kept. large: the folder of the one
    that it drafts for, decoder: that one's. Raises `CheckpointError` if they spell differently."""
    device = str(decoder.device)
    linears = linear_dtype(config.dtype, device)
    dtype = beside_linears(linears) or chosen_dtype(config.dtype, device, folder)
    loading: Loading = {"dtype": dtype, "device": device}
    half = half_decoder(config.dtype, device, folder)
    named = read_json(folder / "config.json")["architectures"]
    if any(name in SEEING for name in named):
        small = Qwen3VLModel.from_folder(folder, half=half, linears=linears, **loading).decoder
    else:
        small = Qwen3Model.from_folder(folder, half=half, linears=linears, **loading)
    small.cache_dtype = cache_dtype(config, small.dtype)
    if small.vocab != decoder.vocab:
        raise CheckpointError.of(folder, "draft", f"logits of {decoder.vocab} tokens", small.vocab)
    ours, theirs = QwenTokenizer.from_folder(large), QwenTokenizer.from_folder(folder)
    if not ours.spells_like(theirs):
        raise CheckpointError(f"{folder}: draft: expected the vocabulary of {large}, got another")
    return small


def draft_head(large: Path, config: EngineConfig, decoder: Qwen3Model) -> Eagle3Head | None:
    """A head on the model, if that is who drafts; the decoder keeps features for it from now on.
    large: the folder of the model, decoder: its own. Raises `CheckpointError`."""
    if not config.draft_model or not is_head(folder := Path(config.draft_model)):
        return None
    named = read_json(large / "config.json")["architectures"]
    model = LargeModel(large, tuple(named), decoder.dims, decoder.vocab)
    half = half_decoder(config.dtype, str(decoder.device), folder)
    head = Eagle3Head.from_folder(folder, model, decoder, half=half)
    decoder.tap = head.tap
    return head


def chat_parts(
    config: EngineConfig,
    folder: Path,
    device: str,
    model: Qwen3ChatModel
    | Qwen3VLModel
    | Qwen3VLLanguage
    | Qwen3OmniModel
    | SmolVlmModel
    | VoxtralChatModel,
    *,
    tokenizer: QwenTokenizer | None = None,
    template: ChatTemplate | None = None,
    linears: torch.dtype | None = None,
    pictures: HeldPictures | None = None,
    recordings: RecordingStore | None = None,
    media_parts: int = 0,
    graphs: Callable[[Acceleration], MediaEncoder] | None = None,
    adapters: Adapters | None = None,
) -> Parts:
    """tokenizer, template: where they are not the folder's own. linears: what the decoder's
    matrices are in, where they are in less than the rest. pictures: of a model that sees,
    recordings: of one that hears; media_parts: see `PagedRunner`. graphs: how its media are encoded
    where passes are captured."""
    decoder, acceleration = model.decoder, acceleration_of(config, device)
    decoder.cache_dtype = cache_dtype(config, decoder.dtype)
    head = draft_head(folder, config, decoder)
    context = min(config.max_context_tokens, decoder.dims.context)
    longest = math.ceil(context / BLOCK_TOKENS)
    # Prompts are seldom as long as they may be, so what half of the rows could need leaves room for
    # what sessions come back to.
    useful = max(2, config.max_rows // 2) * longest
    tokenizer = tokenizer or QwenTokenizer.from_folder(folder)
    template = template or ChatTemplate.from_folder(folder)
    embeddings = EmbeddingsStore(decoder.dims.width) if config.enable_prompt_embeds else None
    prompter = ChatPrompter(tokenizer, template, pictures, context, recordings, embeddings)
    modules = SentenceModules.from_folder(folder)
    tower = None
    if config.role == "language":
        tower = RemoteTower(ENCODER_CACHE_BYTES, media_parts, decoder.dims.width)
    pooling, lacks = pooling_desk(config, prompter, decoder, modules, adapters, tower)
    if embeddings is None:
        lacks = (*lacks, "prompt_embeds")
    small: Qwen3Model | None = None
    beside = 0
    if head is not None:
        beside = head.bytes_per_token
    elif config.draft_model and "chat" not in lacks:
        small = draft_decoder(Path(config.draft_model), folder, config, decoder)
        beside = bytes_per_token(small)
    blocks = num_blocks(config, decoder, longest=longest, useful=useful, beside=beside)
    runner = PagedRunner(
        model,
        max_rows=config.max_rows,
        num_blocks=blocks,
        max_context=context,
        encoder_bytes=ENCODER_CACHE_BYTES,
        media_parts=max(1, media_parts) if config.enable_prompt_embeds else media_parts,
        media_encoder=graphs(acceleration) if graphs and acceleration.backend else None,
        acceleration=acceleration,
        adapters=adapters,
    )
    others: dict[type, Desk] = {}
    if tower is not None:
        others = {MediumEncoded: tower, EncodingFailed: tower}
    parts = Parts(
        desk=Desks(pooling, others) if others else pooling,
        runner=runner,
        num_parameters=model.num_parameters,
        dtype=linears or decoder.dtype,
        encoder_budget=ENCODER_BUDGET_TOKENS,
        lacks=lacks,
        context_tokens=context,
    )
    if "chat" in lacks:
        return with_adapters(parts, adapters)
    vocab = decoder.dims.vocab
    ends = tuple(token for token in model.end_tokens if token < vocab)
    if not ends:
        expected = f"token ids, one at least below {vocab}"
        raise CheckpointError.of(folder, "eos_token_id", expected, model.end_tokens)
    chat = ChatDesk(
        config.name,
        prompter,
        GenerationDefaults.from_folder(folder),
        ends,
        vocab,
        max_answer=config.max_answer_tokens,
        max_answers=config.max_answers,
        adapters=adapters,
        tower=tower,
    )
    network: DraftNetwork | None = None
    if head is not None:
        network = HeadPasses(head, runner.cache, runner.rows)
    elif small is not None:
        network = SmallModel(small, runner.rows, blocks)
    desk = Desks(chat, {StartPooling: pooling, **others})
    measure = partial(_begin_drafts, config, runner, network, blocks)
    return with_adapters(replace(parts, desk=desk, measure=measure), adapters)


def _begin_drafts(
    config: EngineConfig,
    runner: PagedRunner,
    network: DraftNetwork | None,
    blocks: int,
    clock: Callable[[], float],
) -> None:
    """Who guesses how answers go on, and what passes take, by the clock. network: None: nobody but
    look-up. blocks: of the cache."""
    if config.draft == "off":
        return
    by_network = None if network is None else ModelDrafter(network, blocks)
    drafter: Drafter = LookupDrafter() if by_network is None else by_network
    if config.draft != "ngram":
        drafter.costs = measured_costs(runner, clock, by_network)
    runner.drafter = drafter
