"""Whatever may be sent as a schema or as a tool, sensible or not.

LOOKHEAR_FUZZ=10000 tries so many.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("LOOKHEAR_FUZZ", "80"))
KEYWORDS = (
    "type properties required items enum const anyOf oneOf allOf not $ref $defs pattern format "
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems "
    "maxItems uniqueItems prefixItems additionalProperties patternProperties default title "
    "description nullable if then x-guidance"
).split()
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    ["object", "string", "integer", "array", "null", "number", "date-time", "^a+$", "(?=a)", "[",
     "#/$defs/a", "http://elsewhere", ["string", "null"], ["a"], {}, [], 0, 1, -1, 3, 0.5, 1e300,
     True, False, None, 10**30, "\u0000", "é"]
)  # fmt: skip
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    VALUES,
    lambda inner: (
        st.dictionaries(st.sampled_from([*KEYWORDS, "a", "b"]), inner, max_size=4)
        | st.lists(inner, max_size=3)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(KEYWORDS), SCHEMAS, max_size=4) | st.builds(
    lambda properties: {"type": "object", "properties": properties, "required": [*properties]},
    st.dictionaries(st.sampled_from("ab"), st.dictionaries(st.sampled_from(KEYWORDS), SCHEMAS)),
)
TOOLS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["f", "g", "get.it", "x-y"])},
        optional={
            "parameters": OBJECTS | st.none(),
            "strict": st.booleans() | st.none(),
            "description": st.text(max_size=5),
        },
    ),
    min_size=1,
    max_size=4,
)
NAMED: list[Any] = [{"type": "function", "function": {"name": name}} for name in ("f", "g")]
