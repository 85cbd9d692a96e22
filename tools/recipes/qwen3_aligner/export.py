"""Write demo-qwen3-aligner as a usual folder: `python -m tools.recipes.qwen3_aligner.export
--run DIR`."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.checkpoints.folders import drafted, write_json
from tools.recipes.qwen3_aligner.network import AlignerNetwork
from tools.recipes.qwen3_asr.export import configuration, write_processor
from tools.recipes.qwen3_asr.network import Size

ARCHITECTURE = "Qwen3ASRForTokenClassification"
CHAT_TEMPLATE = """\
{%- set found = namespace(audio='', words='') -%}
{%- for part in messages[0].content -%}
  {%- if part.type == 'audio' -%}
    {%- set found.audio = '<|audio_start|><|audio_pad|><|audio_end|>' -%}
  {%- elif part.type == 'text' -%}
    {%- set found.words = found.words + part.text + '<timestamp><timestamp>' -%}
  {%- endif -%}
{%- endfor -%}
{{- found.audio + found.words -}}
"""


def write_folder(net: AlignerNetwork, tokenizer_folder: Path, folder: Path) -> None:
    """Writes the whole folder; what is there besides stays."""
    from safetensors.torch import save_file

    with drafted(folder) as draft:
        write_processor(tokenizer_folder, CHAT_TEMPLATE, draft)
        config = configuration(net.size, net.vocabulary, QwenTokenizer.from_folder(draft))
        config |= {"architectures": [ARCHITECTURE], "num_labels": net.labels}
        write_json(draft / "config.json", config)
        weights = {
            name: weight.detach().half().contiguous() for name, weight in net.state_dict().items()
        }
        save_file(weights, str(draft / "model.safetensors"), metadata={"format": "pt"})
        write_json(draft / "lookhear.json", {"toy": True})


def load_network(run: Path) -> AlignerNetwork:
    """The network of a run's last state."""
    state = torch.load(run / "state.pt", weights_only=True)["net"]
    vocabulary = len(state["model.language_model.embed_tokens.weight"])
    net = AlignerNetwork(Size(), vocabulary, len(state["score.weight"]))
    net.load_state_dict(state)
    return net


def main() -> None:
    """Writes the folder of a finished run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of qwen3_aligner.train")
    parser.add_argument("--out", type=Path, default=Path("tools/demo/lookhear_demo/qwen3_aligner"))
    options = parser.parse_args()
    write_folder(load_network(options.run), options.run / "tokenizer", options.out)


if __name__ == "__main__":
    main()
