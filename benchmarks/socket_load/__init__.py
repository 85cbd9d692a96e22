"""The gateway without an engine: who floods it with speech, and what stands in for the model."""
