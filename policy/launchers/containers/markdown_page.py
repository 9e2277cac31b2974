"""Pages in Markdown or reStructuredText: their code blocks. A block of commands is read as a script, after the blocks of
the same section that only prepare (`export`, `pip install`); any other block as a file of its own."""

from __future__ import annotations

import re

from policy.launchers.containers.reading.launches import merge_parts
from policy.launchers.containers.reading.scripts import read_script
from policy.launchers.found import FoundLaunch, LaunchNotice
from policy.launchers.yaml_places import Node
from policy.records import dataclass

NAME = "Markdown page"
LOOKS_FOR = "code blocks that start an engine"
YAML = False

_NAMES = (".md", ".mdx", ".markdown", ".rst")
_ENGINE = re.compile(r"vllm|sglang|trtllm|tensorrt_llm|huggingfaceserver", re.IGNORECASE)
_FENCE = re.compile(r"^(?P<indent>[ \t>]*)(?P<fence>`{3,}|~{3,})[ \t]*\{?\.?(?P<language>[\w+-]*)[^`\n]*$")
_DIRECTIVE = re.compile(r"^(?P<indent>[ \t]*)(?:\.\. (?:code-block|code|sourcecode)::[ \t]*(?P<language>[\w+-]*)|[^.\n].*::)[ \t]*$")
_HEADING = re.compile(r"#{1,6}[ \t]|(?:=|-|~|\^|\"|\*){4,}[ \t]*$|<(?:details|summary|Tab|TabItem)\b|:::|=== ")
_PROMPT = re.compile(r"^(?P<blank>[ \t]*)(?:\([\w. -]+\)[ \t]*)?(?:[\w.-]+@[\w.-]+[^\s$#]*[$#]|[$%❯])[ \t]+")
_FENCED = re.compile(r"^[ \t>]*(?:```|~~~|\.\. code-block::)", re.MULTILINE)
_PROGRAM = re.compile(
    r"^[ \t>]*(?:\w+=\S+ +)*(?:(?:sudo +)?(?:docker|podman)\b.*\brun\b|(?:vllm|sglang) serve|trtllm-serve|python3? -m (?:vllm|sglang|dynamo)\.|export )"
)
_SHELLS = frozenset(("bash", "sh", "shell", "zsh", "console", "shellsession", "shell-session", "terminal", "bash-session", "cmd"))
MAX_BLOCKS = 500


@dataclass(frozen=True, slots=True)
class _Block:
    """One code block: its lines from `start` (counted from 0), and the number of the section it stands in."""

    language: str
    start: int
    lines: tuple[str, ...]
    section: int

    @property
    def shell(self) -> bool:
        """Whether the block says that it holds commands."""
        return self.language in _SHELLS

    def padded(self) -> str:
        """The block as a text whose lines and columns are those of the page."""
        return "\n" * self.start + "\n".join(self.lines) + "\n"


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    if not _ENGINE.search(text) or not _blocks(text):
        return 0
    if name.lower().endswith(_NAMES):
        return 98
    if text.startswith("#!") or not _FENCED.search(text):
        return 0
    return 10 if any(document.kind == "mapping" for document in documents) else 30  # pages also stand inside other files


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    preparing: dict[int, str] = {}
    blocks = _blocks(text)
    for block in blocks[:MAX_BLOCKS]:
        if not block.shell and (block.language or not _commands(block)):
            launches += _of_file(block, name)
            continue
        script = _commanded(block)
        before = preparing.get(block.section, "")
        script = before + script[before.count("\n") :]
        found = read_script(script, name) if _ENGINE.search(script) else []
        launches += found
        if not found:
            preparing[block.section] = script
    return merge_parts(launches)


def _of_file(block: _Block, name: str) -> list[FoundLaunch]:
    """The launches of a block that shows a file."""
    from policy.launchers.containers import find_launches, shell_script  # here, since that package imports this module

    text = block.padded()
    if not _ENGINE.search(text) or block.language in ("python", "py", "json", "http", "diff", "text", "mermaid"):
        return []
    found = find_launches(text, name)
    if found.format == shell_script.NAME and not text.lstrip().startswith("#!"):
        return []  # any text may hold the words of a command
    return found.launches


def _commands(block: _Block) -> bool:
    """Whether a block without a language holds commands: it has a prompt, or a line that begins with an engine's program."""
    return any(_PROMPT.match(line) or _PROGRAM.match(line) for line in block.lines)


def _commanded(block: _Block) -> str:
    """The commands of a block: where it shows prompts, what follows them, without the output in between."""
    if not any(_PROMPT.match(line) for line in block.lines):
        return block.padded()
    lines, continued = [], False
    for line in block.lines:
        prompt = _PROMPT.match(line)
        if prompt is not None:
            line = " " * prompt.end() + line[prompt.end() :]
        elif not continued:
            line = ""
        continued = line.rstrip().endswith("\\")
        lines.append(line)
    return "\n" * block.start + "\n".join(lines) + "\n"


def _blocks(text: str) -> list[_Block]:
    """The code blocks of a page, in order."""
    lines, found = text.split("\n"), list[_Block]()
    at = section = 0
    while at < len(lines):
        line = lines[at]
        fence = _FENCE.match(line)
        directive = None if fence is not None else _DIRECTIVE.match(line)
        if fence is not None:
            quote = ">" in fence["indent"]
            closing = re.compile(rf"^[ \t>]*{re.escape(fence['fence'][0])}{{{len(fence['fence'])},}}[ \t]*$")
            end = next((number for number in range(at + 1, len(lines)) if closing.match(lines[number])), len(lines))
            inner = [re.sub(r"^[ \t]*>", lambda match: " " * len(match.group()), one) if quote else one for one in lines[at + 1 : end]]
            found.append(_Block(fence["language"].lower(), at + 1, tuple(inner), section))
            at = end + 1
        elif directive is not None:
            end = _indented(lines, at + 1, len(directive["indent"]))
            language = directive["language"] or ""
            if language or end > at + 2:
                found.append(_Block(language.lower(), at + 1, tuple(one if not one.strip().startswith(":") else "" for one in lines[at + 1 : end]), section))
            at = max(end, at + 1)
        else:
            section += bool(_HEADING.match(line.lstrip()))
            at += 1
    return found


def _indented(lines: list[str], start: int, outer: int) -> int:
    """The line after the block that is indented deeper than `outer`."""
    end = start
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > outer):
        end += 1
    return end
