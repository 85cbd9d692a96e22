"""Checkpoints and recordings for trying, testing and measuring lookhear offline: data alone.

`whisper/`, `qwen3_asr/`, `qwen3_vl/` and `qwen3_aligner/` are Hugging Face folders, each with a
model card; `recordings/` holds speech that they understand, made by the recipes in lookhear's
repository, and a person's for real models.
"""
