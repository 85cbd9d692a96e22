"""How Voxtral is asked, as a chat template: its checkpoints have none, mistral-common writes it.

    <s>[SYSTEM_PROMPT]...[/SYSTEM_PROMPT][INST]a question[/INST]an answer</s>[INST]...
    <s>[INST][BEGIN_AUDIO][AUDIO]...a question[/INST]

Source: `InstructTokenizerV7` of mistral-common 1.13, the version that Voxtral's tekken.json names.
It refuses a system message beside recordings, which the model has not seen together. So that one
can be told how to answer all the same, its text then stands in front of the first question.
"""

BEGIN, PAD = "[BEGIN_AUDIO]", "[AUDIO]"

TEMPLATE = """\
{%- macro written(content) -%}
  {%- if content is string -%}
    {{- content -}}
  {%- else -%}
    {%- for part in content -%}
      {%- if part.type == 'audio' -%}
        {{- '[BEGIN_AUDIO][AUDIO]' -}}
      {%- else -%}
        {{- part.text -}}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro -%}
{%- set told = namespace(hears=false, first='') -%}
{%- for message in messages if message.content is not string -%}
  {%- for part in message.content if part.type == 'audio' -%}
    {%- set told.hears = true -%}
  {%- endfor -%}
{%- endfor -%}
{{- '<s>' -}}
{%- for message in messages -%}
  {%- if message.role == 'system' and told.hears -%}
    {%- set told.first = told.first + written(message.content) + '\\n\\n' -%}
  {%- elif message.role == 'system' -%}
    {{- '[SYSTEM_PROMPT]' + written(message.content) + '[/SYSTEM_PROMPT]' -}}
  {%- elif message.role == 'assistant' -%}
    {{- written(message.content) + '</s>' -}}
  {%- else -%}
    {{- '[INST]' + told.first + written(message.content) + '[/INST]' -}}
    {%- set told.first = '' -%}
  {%- endif -%}
{%- endfor -%}
"""
