"""Answers as LMs give them, by name: the text, what must come out of it, and what the parser then finds.

Whatever is wrapped around it, the program is `PROGRAM` or the function `BODY` unless an entry says otherwise.
"""

import textwrap
from typing import NamedTuple

PROGRAM = """\
E2 = step.Zip().apply((E0, E1))
E3 = step.Map(fn=fn_mul).apply(E2)
return E3"""
LINES = PROGRAM.split("\n")
BODY = f"def body(E0, E1):\n{textwrap.indent(PROGRAM, '    ')}"
DRAFT = "E9 = step.Map(fn=fn_add).apply(E0)\nreturn E9"
ECHO = """\
inputs:
  - name: E0
    dtype: fp32
    dims: [M, N]
fns:
  - name: Mul
    apply: |
      y = input[0] * input[1]
      return [y]
    func_name: fn_mul
outputs:
  - name: S0
    data_transform:
      - |
        y = input_data['E0']
        y * input_data['E1']"""


IMPL, END = "[[ ## impl ## ]]", "[[ ## completed ## ]]"


def indented(columns: int, text: str = PROGRAM) -> str:
    return textwrap.indent(text, " " * columns)


def escaped(text: str = PROGRAM) -> str:
    return text.replace("\n", "\\n")


class Completion(NamedTuple):
    """An answer that is no program, what comes out of it, and the code of the parser's first diagnostic."""

    text: str
    program: str
    code: str


WRAPPED = {
    "nothing around it": PROGRAM,
    "blank lines around it": f"\n\n{PROGRAM}\n\n",
    "indented as a whole": indented(8),
    "indented after the first line": "\n  ".join(LINES),
    # field markers
    "markers": f"[[ ## impl ## ]]\n{PROGRAM}\n\n[[ ## completed ## ]]",
    "bold markers": f"**[[ ## impl ## ]]**\n{PROGRAM}\n\n**[[ ## completed ## ]]**",
    "markers on its lines": f"[[ ## impl ## ]] {PROGRAM} [[ ## completed ## ]]",
    "loose markers": f"[[##impl##]]\n{PROGRAM}\n[[##completed##]]",
    "markers around a fence": f"[[ ## impl ## ]]\n```python\n{PROGRAM}\n```\n\n[[ ## completed ## ]]",
    "markers around YAML": f"[[ ## impl ## ]]\nimpl: |\n{indented(2)}\n[[ ## completed ## ]]",
    "a marker cut off": f"[[ ## impl ## ]]\n{PROGRAM}\n\n[[ ## compl",
    "the guardian's marker": f"[[ ## output_impl ## ]]\n{PROGRAM}\n",
    "a field of reasoning": f"[[ ## reasoning ## ]]\n{DRAFT}\n\n[[ ## impl ## ]]\n{PROGRAM}\n",
    "an empty field, then another": f"[[ ## impl ## ]]\n\nLet me think.\n\n[[ ## impl ## ]]\n{PROGRAM}",
    # fences
    "fence with python": f"```python\n{PROGRAM}\n```",
    "fence with py and a space": f"``` py\n{PROGRAM}\n```",
    "fence with Step": f"```Step\n{PROGRAM}\n```",
    "fence with attributes": f'```python title="impl"\n{PROGRAM}\n```',
    "fence without label": f"```\n{PROGRAM}\n```",
    "fence with its label a line late": f"```\npython\n{PROGRAM}\n```",
    "fence of four": f"````\n{PROGRAM}\n````",
    "fence of tildes": f"~~~\n{PROGRAM}\n~~~",
    "fence never closed": f"Here it is:\n```python\n{PROGRAM}",
    "fence closed only": f"{PROGRAM}\n```",
    "fences on its lines": f"```{PROGRAM}```",
    "fence in a list": f"- The program:\n  ```python\n{indented(2)}\n  ```",
    "prose around the fence": f"Sure! Zip, then map.\n\n```python\n{PROGRAM}\n```\n\nE2 is then used once, E3 too.",
    "two fences, the last is right": f"```python\n{DRAFT}\n```\nThat has the wrong type.\n```python\n{PROGRAM}\n```",
    "a whole program, then a part": f"```\n{PROGRAM}\n```\nwhere\n```\n{LINES[1]}\n```\ndoes the work.",
    "a fence within YAML within a fence": f"```yaml\nimpl: |\n  ```python\n{indented(2)}\n  ```\n```",
    # YAML and JSON
    "YAML literal": f"impl: |\n{indented(2)}\n",
    "YAML literal, stripped": f"impl: |-\n{indented(4)}",
    "YAML literal, kept and indented": f"impl: |2+\n{indented(2)}\n",
    "YAML folded": f"impl: >-\n{indented(2)}",
    "YAML with a comment": f"impl: |  # the program\n{indented(2)}",
    "YAML that forgot to indent": f"impl: |\n{PROGRAM}\n",
    "YAML plain": "impl: " + "\n  ".join(LINES),
    "YAML double-quoted": f'impl: "{escaped()}"',
    "YAML single-quoted": f"impl: '{PROGRAM}'",
    "YAML of the guardian": f"output_impl: |\n{indented(2)}\nexplanation: |\n  Nothing is used twice.\n",
    "YAML in a list": f"- impl: |\n{indented(4)}\n  explanation: |\n    zip, then map",
    "YAML in a fence": f"```yaml\nimpl: |-\n{indented(2)}\n```",
    "the task in YAML with its impl": f"{ECHO}\nimpl: |\n{indented(2)}\n",
    "JSON": f'{{"impl": "{escaped()}"}}',
    "JSON with newlines in the string": f'{{"impl": "{PROGRAM}"}}',
    "JSON in a fence": f'```json\n{{\n  "impl": "{escaped()}"\n}}\n```',
    "JSON with a list of lines": '{"impl": ["' + '", "'.join(LINES) + '"]}',
    "JSON with another key before": f'{{"reasoning": "Zip, then map: {{}}.", "impl": "{escaped()}"}}',
    "JSON cut off": f'{{"impl": "{escaped()}',
    # tags
    "a tag": f"<impl>\n{PROGRAM}\n</impl>",
    "a tag around a fence": f"<answer>\n```python\n{PROGRAM}\n```\n</answer>",
    "a tag with attributes": f'<code class="python">\n{PROGRAM}\n</code>',
    "a tag never closed": f"<program>\n{PROGRAM}",
    # thoughts
    "a thought": f"<think>\n{DRAFT}\n</think>\n{PROGRAM}",
    "a thought with capitals": f"<Thinking>{DRAFT}</Thinking>\n\n```\n{PROGRAM}\n```",
    "a thought opened by the template": f"{DRAFT}\n</think>\n\n{PROGRAM}",
    "a thought in brackets": f"[THINK]{DRAFT}[/THINK]{PROGRAM}",
    "a thought that never ends": f"<think>\nSo the program is\n\n{PROGRAM}\n",
    "channels": f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final<|message|>{PROGRAM}",
    # Python around it
    "an import": f"import step\nfrom step import *\n\n{PROGRAM}",
    "a string in Python": f'impl = """\n{PROGRAM}\n"""',
    "a session": ">>> " + "\n>>> ".join(LINES),
    # prose
    "prose around it": f"I zip the inputs first.\n\n{PROGRAM}\n\nThis gives what was asked.",
    "prose between the statements": f"First:\n{LINES[0]}\nThen multiply, with N = 3:\n{LINES[1]}\nFinally:\n{LINES[2]}",
    "a heading": f"**Implementation:**\n\n{PROGRAM}\n",
    "a label on its first line": f"Answer: {PROGRAM}",
    "a program corrected below": f"{DRAFT}\n\nWait, these must be zipped first.\n\n{PROGRAM}",
    "a numbered list": "\n".join(f"{number}. {line}" for number, line in enumerate(LINES, 1)),
    "line numbers": "\n".join(f"{number} | {line}" for number, line in enumerate(LINES, 1)),
    "bullets and backticks": "\n".join(f"- `{line}`" for line in LINES),
    "a quotation": "> " + "\n> ".join(LINES),
    "an echo of the prompt": f"[[ ## task ## ]]\n{ECHO}\n\n[[ ## impl ## ]]\n{PROGRAM}\n\n[[ ## completed ## ]]",
    "an echo of the task alone": f"{ECHO}\n\n{PROGRAM}",
    # characters
    "Windows line ends": PROGRAM.replace("\n", "\r\n"),
    "old Macintosh line ends": PROGRAM.replace("\n", "\r"),
    "non-breaking spaces": PROGRAM.replace(" ", "\u00a0"),
    "a byte order mark and zero-width spaces": "\ufeff" + PROGRAM.replace("E2", "E2\u200b"),
    "underscores escaped for Markdown": PROGRAM.replace("_", "\\_"),
    "newlines escaped": escaped(),
    "a token of the chat template": f"{PROGRAM}<|im_end|>",
    # all kinds
    "a tag with CDATA": f"<impl><![CDATA[\n{PROGRAM}\n]]></impl>",
    "a YAML document": f"---\nimpl: |\n{indented(2)}\n...",
    "YAML below another key": f"answer:\n  impl: |\n{indented(4)}",
    "YAML indented by a tab": "impl: |\n" + textwrap.indent(PROGRAM, "\t"),
    "YAML list of lines": "impl:\n" + "\n".join(f"  - {line}" for line in LINES),
    "YAML list of quoted lines": "impl:\n" + "\n".join(f'  - "{line}"' for line in LINES),
    "LaTeX verbatim": f"\\begin{{verbatim}}\n{PROGRAM}\n\\end{{verbatim}}",
    "LaTeX listing": f"\\begin{{lstlisting}}[language=Python]\n{PROGRAM}\n\\end{{lstlisting}}",
    "LaTeX box": f"\\boxed{{\n{PROGRAM}\n}}",
    "fence with a label in braces": f"```{{python}}\n{PROGRAM}\n```",
    "fence with python3": f"```python3\n{PROGRAM}\n```",
    "fence of another language": f"```yaml\n{PROGRAM}\n```",
    "a fence of something else before": f"```bash\npip install step\n```\n```python\n{PROGRAM}\n```",
    "a fence within a fence": f"````markdown\n```python\n{PROGRAM}\n```\n````",
    "fence closed with a word behind": f"```python\n{PROGRAM}\n``` end",
    "fence with a diff": "```diff\n" + "\n".join(f"+{line}" for line in LINES) + "\n```",
    "fence with a diff that takes lines away": "```diff\n-E3 = step.Map(fn=fn_add).apply(E2)\n"
    + "\n".join(f"+{line}" for line in LINES)
    + "\n```",
    "the speaker on its first line": f"assistant: {PROGRAM}",
    "the speaker above": f"Assistant:\n{PROGRAM}",
    "an echo of the format before": f"{IMPL}\n{{impl}}\n\n{END}\n\n{IMPL}\n{PROGRAM}\n\n{END}",
    "an echo of the format after": f"{IMPL}\n{PROGRAM}\n\n{END}\n\n{IMPL}\n{{impl}}\n\n{END}",
    "an echo of a demonstration": f"{ECHO}\n\n{IMPL}\n{DRAFT}\n\n{END}\n\n{ECHO}\n\n{IMPL}\n{PROGRAM}\n\n{END}",
    "JSON with a comma too many": f'{{"impl": "{escaped()}",}}',
    "a dict in Python": f"{{'impl': '{escaped()}'}}",
    "a dict in Python over lines": f"{{'impl': '''\n{PROGRAM}\n'''}}",
    "a dict in Python, quoted both ways": "{'impl': \"" + escaped() + '"}',
    "JSON of a tool call": f'{{"name": "finish", "arguments": {{"impl": "{escaped()}"}}}}',
    "JSON in a list": f'[{{"impl": "{escaped()}"}}]',
    "JSON escaped twice": '{"impl": "' + PROGRAM.replace("\n", "\\\\n") + '"}',
    "bold lines": "\n".join(f"**{line}**" for line in LINES),
    "a notebook": "\n".join(f"In [{i}]: {line}" for i, line in enumerate(LINES, 1)),
    "steps and backticks": "\n".join(f"Step {i}: `{line}`" for i, line in enumerate(LINES, 1)),
    "steps": "\n".join(f"Step {i}: {line}" for i, line in enumerate(LINES, 1)),
    "HTML": f'<pre><code class="language-python">{PROGRAM}</code></pre>',
    "HTML line ends in a line": "<br>".join(LINES),
    "HTML line ends": "<br/>\n".join(LINES),
    "Windows line ends in a fence": f"```python\n{PROGRAM}\n```".replace("\n", "\r\n"),
    "indented by a tab": textwrap.indent(PROGRAM, "\t"),
    "a form feed": "\f" + PROGRAM,
    "a thought by another name": f"<thought>{DRAFT}</thought>{PROGRAM}",
    "a thought between control tokens": f"<|begin_of_thought|>\n{DRAFT}\n<|end_of_thought|>\n"
    f"<|begin_of_solution|>\n{PROGRAM}\n<|end_of_solution|>",
    "a thought with a prefix": f"<seed:think>{DRAFT}</seed:think>{PROGRAM}",
    "a draft under another heading": f"### Reasoning\n{DRAFT}\n\n### Answer\n{PROGRAM}",
    "an echo of the guardian's prompt": f"[[ ## input_impl ## ]]\n{DRAFT}\n\n[[ ## output_impl ## ]]\n{PROGRAM}\n{END}",
    "the guardian's answer, then why": f"[[ ## output_impl ## ]]\n{PROGRAM}\n\n"
    "[[ ## explanation ## ]]\nE2 is used once.\nreturn E3 consumes nothing.",
    "a comment of another language": "// the program\n" + PROGRAM,
    "backticks around all of it": f"`{PROGRAM}`",
    "a fence in a quotation": "> ```python\n" + textwrap.indent(PROGRAM, "> ") + "\n> ```",
    "a draft struck out": f"~~{DRAFT}~~\n\n{PROGRAM}",
    "an empty fence before": f"```python\n```\n{PROGRAM}",
    "prose that begins with return": f"{PROGRAM}\n\nreturn E3 gives the one output.",
    "emojis": "\n".join(f"✅ {line}" for line in LINES),
    "numbers and colons": "\n".join(f"{i}: {line}" for i, line in enumerate(LINES, 1)),
    "a script's end": f"{PROGRAM}\n\nif __name__ == '__main__':\n    pass",
    "arrows": "\n".join(f"→ {line}" for line in LINES),
    "a fence below the key": f"impl:\n```\n{PROGRAM}\n```\nexplanation: it zips.",
    "a bold key": f"**impl**:\n\n{PROGRAM}",
    "markers in capitals": f"[[## IMPL ##]]\n{PROGRAM}\n[[## COMPLETED ##]]",
    "markers with a bracket missing": f"[ ## impl ## ]\n{PROGRAM}\n[ ## completed ## ]",
    "markers as headings": f"## impl\n{PROGRAM}\n## completed",
    "a fence in HTML details": f"<details><summary>Program</summary>\n\n```python\n{PROGRAM}\n```\n</details>",
    "an end token on a line": f"{PROGRAM}\n<|eot_id|>",
    "the prompt between instruction marks": f"[INST]{ECHO}[/INST]\n{PROGRAM}</s>",
    "ideographic spaces": PROGRAM.replace(" ", "\u3000"),
    "narrow non-breaking spaces": PROGRAM.replace(" ", "\u202f"),
    "marks of direction": "\u200e" + PROGRAM.replace("\n", "\u200e\n"),
    "an artifact": f'<artifact identifier="p" language="python">\n{PROGRAM}\n</artifact>',
    "a call in XML": f'<invoke name="finish"><parameter name="impl">{PROGRAM}</parameter></invoke>',
    "a label above and thanks below": f"Final Answer: \n\n{PROGRAM}\n\nThank you.",
    "YAML with a quotation that never ends": f'impl: "{escaped()}',
    "YAML double-quoted over lines": 'impl: "' + PROGRAM.replace("\n", "\\n\\\n  ") + '"',
    "two options, the second preferred": f"Option A:\n```\n{DRAFT}\n```\nOption B (preferred):\n```\n{PROGRAM}\n```",
    "a fence to compare with": f"```python\n{PROGRAM}\n```\n\nCompared with\n```\n{LINES[0]}\n```",
    "brackets escaped for Markdown": PROGRAM.replace("(", "\\(").replace(")", "\\)"),
    "equals signs escaped for Markdown": PROGRAM.replace("=", "\\="),
    "HTML entities": PROGRAM.replace("(", "&#40;").replace(")", "&#41;"),
    "HTML tags escaped": f"<code>{PROGRAM}</code>".replace("<code>", "&lt;code&gt;").replace(
        "</code>", "&lt;/code&gt;"
    ),
    "lines numbered with a letter": "\n".join(f"L{i}: {line}" for i, line in enumerate(LINES, 1)),
    "printed": f"print('''\n{PROGRAM}\n''')",
}

FUNCTIONS = {
    "a function": BODY,
    "a function with tabs": "def body(E0, E1):\n" + textwrap.indent(PROGRAM, "\t"),
    "a function with a result type": BODY.replace("):", ") -> step.Stream:"),
    "a function of another name": BODY.replace("body", "program"),
    "a function in a fence": f"```python\nimport step\n\n{BODY}\n```\nIt returns E3.",
    "a function and its call": f"{BODY}\n\nprint(body(E0, E1))",
    "a method": f"class Solution:\n{indented(4, BODY)}",
    "a script": f"import step\n\nclass Mul(step.Fn):\n    def apply(self, input):\n        return [input[0]]\n\n"
    f"def prepare():\n    E0 = step.Stream('E0', 1)\n    return E0\n\n{BODY}\n\n"
    "def test():\n    S0 = body(prepare())\n",
    "a function indented by non-breaking spaces": "def body(E0, E1):\n" + textwrap.indent(PROGRAM, "\u00a0" * 4),
    "a method with self": f"class Program:\n    def body(self, E0, E1):\n{indented(8)}",
}

WHOLE = {
    "comments and blank lines": "# online softmax\nE2 = step.Zip().apply((E0, E1))  # a pair\n\n# done\nreturn E2",
    "a list above": "fns = [fn_a, fn_b]\n\nE2 = [step.Map(fn=fn).apply(s) for fn, s in zip(fns, E0)]\nreturn E2",
    "a loop": "E2 = []\nfor fn, s in zip([fn_a, fn_b], E0):\n    E2.append(step.Map(fn=fn).apply(s))\nreturn E2",
    "statements over lines": "E2 = step.Map(\n    fn=fn_mul,\n).apply((\n    E0,\n    E1,\n))\nreturn (\n    E2,\n)",
    "a variable called answer": "answer = step.Map(fn=fn_mul).apply(E0)\nimpl = step.Copy().apply(answer)\nreturn impl",
    "a starred target": "E2 = step.Partition(N=3).apply((E0, E1))\nfirst, *rest = E2\nreturn first, *rest",
    "one statement": "return step.Zip().apply((E0, E1))",
    "no primitive at all": "return E0",
    "a form outside of the language": "E2 = step.Zip().apply((E0, E1))\nif E2:\n    E3 = E2\nreturn E3",
    "cut off": "E2 = step.Zip().apply((E0, E1))\nE3 = step.Map(fn=fn_",
}


SECOND = "\n".join(LINES[:2])
WIDE = PROGRAM.replace("(", "\uff08").replace(")", "\uff09")


def as_it_is(text: str, code: str) -> Completion:
    """An answer that comes out as it came in."""
    return Completion(text, text, code)


REFUSED = {
    "nothing": as_it_is("", "return"),
    "spaces": as_it_is(" \n", "return"),
    "a refusal": as_it_is("I can't do that.", "no-program"),
    "a word": as_it_is("Sure!", "no-program"),
    "the rule in words": as_it_is("No step.Copy() is needed: every stream is consumed once.", "no-program"),
    "prose with return": as_it_is("The stream is used once,\nreturn it as it is.", "no-program"),
    "a fence with Python": as_it_is("```python\nprint('hello')\n```", "statement"),
    "another program": as_it_is("import torch\n\nprint(torch.ones(3))", "statement"),
    "a promise": as_it_is("impl: |\n  to be done", "no-program"),
    "control characters": as_it_is("\x00\ud800", "syntax"),
    "a thought that broke off": as_it_is("<think>\nFirst, zip the two; then", "no-program"),
    "the format alone": as_it_is("[[ ## impl ## ]]\n{impl}\n\n[[ ## completed ## ]]", "no-program"),
    "the task, and nothing else": Completion(ECHO, "y = input[0] * input[1]\nreturn [y]", "name"),
    "cut off in a statement": Completion(
        f"```python\n{LINES[0]}\nE3 = step.Map(fn=fn_", f"{LINES[0]}\nE3 = step.Map(fn=fn_", "syntax"
    ),
    "cut off before return": Completion(f"```python\n{SECOND}", SECOND, "return"),
    "cut off in return": as_it_is(f"{SECOND}\nretu", "statement"),
    "cut off in JSON": Completion(
        f'{{"impl": "{escaped(LINES[0])}\\nE3 = step.Ma', f"{LINES[0]}\nE3 = step.Ma", "expression"
    ),
    "cut off in a thought": Completion(f"<think>\nSo\n{DRAFT}\n\nOr rather\n{LINES[0]}", DRAFT, "name"),
    "full-width brackets": as_it_is(WIDE, "syntax"),
    "without the module's name": as_it_is(PROGRAM.replace("step.", ""), "call"),
    "arithmetic on streams": as_it_is("E2 = E0 * E1\nreturn E2", "arithmetic"),
    "a primitive that is none": as_it_is(PROGRAM.replace("Zip", "Pair"), "primitive"),
    "an unknown stream": as_it_is(PROGRAM.replace("return E3", "return E4"), "name"),
    "a branch": as_it_is(f"{SECOND}\nif E2:\n    E3 = E2\nreturn E3", "statement"),
    "torch": as_it_is(f"{LINES[0]}\nE3 = torch.mul(E0, E1)\nreturn E3", "call"),
}
