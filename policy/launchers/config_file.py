"""The `--config FILE` of an engine: YAML text -> its keys and values with their places, read exactly as PyYAML's safe
loader reads them, since that is what the engines use (a later duplicate wins, `8k` is a word, `no` is false)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from policy.launchers.command import Files
from policy.launchers.found import LaunchNotice
from policy.launchers.placed import Placed, origin_of, shown
from policy.origin import Origin
from policy.records import dataclass, field

_CHARACTERS, _NODES = 1_000_000, 50_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of the file. `flag` is the place of the key; `value` the Python value; `places` the nested leaves."""

    key: Any
    value: Any
    origin: Origin
    place: Origin
    places: Mapping[tuple[str, ...], Placed]

    def word(self, text: str, leaves: bool = False) -> Placed:
        """A word of the command that this entry stands for."""
        return Placed(text, self.origin, f"{self.key}: {as_yaml(self.value)}", str(self.key), self.places if leaves else None)


def as_yaml(value: Any) -> str:
    """A value as one line of YAML, short enough for a message."""
    try:
        return shown(value if isinstance(value, str) else json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return shown(str(value))


@dataclass(slots=True)
class ConfigFile:
    """A file that was read. `root` is the Python value (a dictionary unless the engine would stop at it)."""

    root: Any = None
    entries: list[Entry] = field(default_factory=list)
    errors: list[LaunchNotice] = field(default_factory=list)
    notices: list[LaunchNotice] = field(default_factory=list)


@dataclass(slots=True)
class Pulled:
    """`--config FILE` taken out of the words: `rest` without it, `index` where it stood, and the file."""

    rest: list[Placed]
    index: int
    option: Placed
    name: list[Placed]
    file: ConfigFile = field(default_factory=ConfigFile)

    def fail(self, kind: str, message: str, remedy: str = "") -> None:
        """Adds an error at the place of `--config`."""
        self.file.errors.append(LaunchNotice(kind, message, origin_of(self.option, self.name), remedy))


def pull_config(words: Sequence[Placed], files: Files, takes: Callable[[str], bool], empty: bool) -> Pulled:
    """Takes the first `--config FILE` out of the words and reads the file. `takes` says whether the engine takes a file of
    that name, `empty` whether it takes a file without keys."""
    index = next(position for position, word in enumerate(words) if word == "--config")
    pulled = Pulled([*words[:index], *words[index + 2 :]], index, words[index], list(words[index + 1 : index + 2]))
    if any(word == "--config" for word in pulled.rest):
        while any(word == "--config" for word in pulled.rest):
            again = next(position for position, word in enumerate(pulled.rest) if word == "--config")
            del pulled.rest[again : again + 2]
        pulled.fail("config-file-invalid", "`--config` is given more than once: the engine takes one file", "merge the files")
        return pulled
    if index + 1 == len(words):
        pulled.fail("missing-value", "`--config` needs a file")
        return pulled
    name = str(words[index + 1])
    text = files.get(name) if isinstance(files, Mapping) else files(name)
    if not takes(name):
        pulled.fail("config-file-invalid", f"`{name}` is not taken as a configuration file", "name it `.yaml` or `.yml`")
    elif text is None:
        pulled.fail("config-file-unreadable", f"`{name}` cannot be read, so its settings are not known", f"give the text of `{name}`")
    else:
        pulled.file = read_config(text, name)
        keyless = not isinstance(pulled.file.root, dict) and not (empty and pulled.file.root is None)
        if keyless and not pulled.file.errors:
            pulled.fail("config-file-invalid", f"`{name}` holds no keys: the engine needs a mapping", "write `KEY: VALUE` lines")
    return pulled


def read_config(text: str, name: str) -> ConfigFile:
    """The file; what the engine cannot read is an error, a key given twice a notice."""
    import yaml  # only here: most commands name no file

    result = ConfigFile()
    if len(text) > _CHARACTERS:
        result.errors.append(LaunchNotice("config-file-invalid", f"`{name}` has more than {_CHARACTERS} characters: not read", Origin("file", file=name)))
        return result
    try:
        loader: Any = yaml.SafeLoader(text)
        node = loader.get_single_node()
        result.root = None if node is None else loader.construct_document(node)
        if isinstance(result.root, dict):
            _entries(result, node, loader, name)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        origin = Origin("file", file=name, line=mark.line + 1, column=mark.column + 1) if mark else Origin("file", file=name)
        result.errors.append(LaunchNotice("config-file-invalid", f"`{name}` is not valid YAML: {error.problem or error.context}", origin))
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError) as error:
        result.errors.append(LaunchNotice("config-file-invalid", f"`{name}` is not valid YAML: {type(error).__name__}", Origin("file", file=name)))
    return result


def _entries(result: ConfigFile, node: Any, loader: Any, name: str) -> None:
    nodes: dict[Any, tuple[Any, Any]] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in nodes:
            earlier, later = _at(nodes[key][0], name), _at(key_node, name)
            if _differs(loader, nodes[key][1], value_node):
                text = f"the key `{key}` stands twice; the one in line {later.line} counts, this one is lost"
                result.notices.append(LaunchNotice("duplicate-key", text, earlier, f"keep one `{key}`"))
        nodes[key] = (key_node, value_node)
    budget = [_NODES]
    for key, value in result.root.items():
        key_node, value_node = nodes[key]
        places: dict[tuple[str, ...], Placed] = {}
        _walk(value_node, (), loader, name, places, budget)
        result.entries.append(Entry(key, value, _at(key_node, name), _at(value_node, name), places))


def _differs(loader: Any, one: Any, other: Any) -> bool:
    return bool(loader.construct_object(one, deep=True) != loader.construct_object(other, deep=True))


def _walk(node: Any, path: tuple[str, ...], loader: Any, name: str, places: dict[tuple[str, ...], Placed], budget: list[int]) -> None:
    """Places of the leaves of a nested value, by the path that they have once they are JSON."""
    budget[0] -= 1
    if budget[0] < 0:
        raise ValueError("too many values")
    if node.id != "mapping":
        return
    for key_node, value_node in node.value:
        inner = (*path, _json_key(loader.construct_object(key_node, deep=True)))
        spelling = ".".join(inner)
        written = value_node.value if value_node.id == "scalar" else "…"
        places[inner] = Placed(str(written), _at(key_node, name), f"{spelling}: {shown(str(written))}", spelling)
        _walk(value_node, inner, loader, name, places, budget)


def _json_key(key: Any) -> str:
    return {True: "true", False: "false", None: "null"}[key] if key is None or isinstance(key, bool) else str(key)


def _at(node: Any, name: str) -> Origin:
    return Origin("file", file=name, line=node.start_mark.line + 1, column=node.start_mark.column + 1)
