"""Calls as newer Mistral models write them: `[TOOL_CALLS]name[ARGS]{...}`.

Source: mistral-common's tokenizer of version 11 and the chat templates that go with it.
"""

from __future__ import annotations

import re

from lookhear.engine.markup.call_family import CallFamily

MISTRAL = CallFamily(
    name="mistral",
    mark="[ARGS]",
    begin="[TOOL_CALLS]",
    head="",
    middle="[ARGS]",
    tail="",
    between="",
    end="",
    found=re.compile(r"\s*(?P<name>[^\[\s]+)\s*\[ARGS\]\s*(?P<arguments>\{.*\})\s*", re.DOTALL),
)
