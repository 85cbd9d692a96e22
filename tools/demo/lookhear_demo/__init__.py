"""Checkpoints and recordings for trying, testing and measuring lookhear offline: data alone.

`whisper/`, `qwen3_asr/` and `qwen3_vl/` are Hugging Face folders, each with a model card;
`recordings/` holds speech that they understand, made by the recipes in lookhear's repository, and
a person's for real models.
"""
