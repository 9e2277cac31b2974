"""What a door in finds in a file or on a command line, before any engine's parser has read it."""

from __future__ import annotations

from typing import Any

from policy.origin import Origin
from policy.records import dataclass, field


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command (after the shell's quoting is undone) or one value of a file, with its place."""

    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Stated:
    """A value that a container of launches states itself (nodes of a group, GPUs of a node), with its place."""

    value: Any
    origin: Origin


@dataclass(slots=True)
class FoundLaunch:
    """One engine start found in a file. `words` begins with the engine's program (`vllm serve …`, `python -m
    sglang.launch_server …`); wrappers such as `exec`, `srun`, `numactl` are gone. Variables of the same file are
    replaced; variables that the file does not settle stay as written (`$TP`)."""

    engine: str  # vllm, sglang, tensorrt_llm
    words: tuple[Word, ...] = ()
    environment: dict[str, Word] = field(default_factory=dict)
    image: Word | None = None
    version: Word | None = None  # a version that the file names itself (a recipe's minimum, a log's banner)
    stated: dict[str, Stated] = field(default_factory=dict)  # fact name -> value
    files: dict[str, str] = field(default_factory=dict)  # names used by --config and the like -> text, where the same file carries it
    name: str = ""  # how a person finds it again: metadata.name, a service, a recipe's section
    role: str | None = None  # prefill, decode
    when: str | None = None  # the condition under which this launch is the one
    templated: bool = False  # the file is a template, and what its branches say is read together
    notes: list[str] = field(default_factory=list)  # what was found and could not be read, in words


@dataclass(frozen=True, slots=True)
class LaunchNotice:
    """Something the user should know about a launch whatever is decided: a lost setting, an unknown flag.
    `kind` is kebab-case and stable (`lost-setting`, `unknown-flag`, …); `message` is lower case without a full stop."""

    kind: str
    message: str
    origin: Origin
    remedy: str = ""


#: Kinds of notice about settings that were written and do not count.
LOST_KINDS = frozenset(("lost-setting", "config-file-ignored", "false-dropped", "duplicate-setting", "duplicate-key"))
#: Kinds of notice that only say how the reading was done.
NOTE_KINDS = frozenset(("version-assumed", "version-unknown", "nearest-catalogue", "surroundings"))
#: Kinds of error that depend on the release, and say little where the release is not known.
RELEASE_KINDS = frozenset(("unknown-flag", "flag-of-another-version", "ambiguous-flag", "unknown-key", "config-file-invalid", "invalid-value"))
#: Kinds of remark that say something only where the release is known.
OF_A_RELEASE = RELEASE_KINDS | {"deprecated-flag", "deprecated-key", "unknown-key-ignored"}
