"""Calls as Hermes, Qwen2.5, Qwen3 and Qwen3-VL write them: `<tool_call>{"name": ...}</tool_call>`.

Source: the chat templates of these models.
"""

from __future__ import annotations

import re

from lookhear.engine.markup.call_family import CallFamily

HERMES = CallFamily(
    name="hermes",
    mark="<tool_call>",
    begin="<tool_call>",
    head='\n{"name": "',
    middle='", "arguments": ',
    tail="}\n</tool_call>",
    between="\n",
    end="</tool_call>",
    found=re.compile(
        # Of two neighbours one takes blank space: if both did, all ways to share it would be tried.
        r'\s*\{\s*"name"\s*:\s*"(?P<name>[^"]*)"\s*(?:,\s*"arguments"\s*:(?P<arguments>.*))?\}'
        r"\s*</tool_call>",
        re.DOTALL,
    ),
)
