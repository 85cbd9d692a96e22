"""A checkpoint's tokens, as what keeps answers to a form has to know them. Pure."""

from __future__ import annotations

from lookhear.engine.tokenizers.qwen import QwenTokenizer

# Of what a character of UTF-8 can be made of, without control characters: a vocabulary that lacks
# one could not go on somewhere in an answer.
_BYTES = frozenset(range(0x20, 0xF5)) - {0xC0, 0xC1}


class Vocabulary:
    """As llguidance reads it: bytes by id, special tokens apart. missing: bytes that none is."""

    bos_token_id = None

    def __init__(self, tokenizer: QwenTokenizer, size: int, end_token: int) -> None:
        self._tokenizer = tokenizer
        added = {index: text for text, index in tokenizer.added.items() if index < size}
        self.eos_token_id = end_token
        self.special_token_ids = sorted(added)
        self.tokens = [
            added[token].encode() if token in added else tokenizer.decode_bytes([token])
            for token in range(size)
        ]
        self._of_byte = {
            piece[0]: token
            for token, piece in enumerate(self.tokens)
            if len(piece) == 1 and token not in added
        }
        self.missing = _BYTES - self._of_byte.keys()

    def __call__(self, text: str) -> list[int]:
        """Tokens of text that is the only one possible; exactly of its bytes, which tokenizers do
        not promise (Qwen's puts characters together)."""
        if not isinstance(text, str):
            raise TypeError(f"expected a text, got {type(text)}")
        tokens = self._tokenizer.encode(text)
        if self._tokenizer.decode_bytes(tokens) == text.encode():
            return tokens
        return [self._of_byte[byte] for byte in text.encode()]
