"""The machinery that both engines' command lines share: the engine's own options in Python's own argparse, since that is
what the engines use, with the origin of every word kept. Only options that a word of the command can mean are built, so
that a parser of 500 options costs a few."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from policy.launchers.catalogue import Catalogue, Option
from policy.launchers.converters import CONVERTERS, Converter, convert
from policy.launchers.found import LaunchNotice
from policy.launchers.placed import Placed, origin_of, shown, tagged
from policy.launchers.settings import Setting, Settings, flat
from policy.origin import Origin
from policy.records import dataclass, field

#: What the caller lets the parser read: name -> text. A callable answers None for what it does not give.
Files = Mapping[str, str] | Callable[[str], "str | None"]

_LISTED = 6  # names in one message
_ATTEMPTS = 20  # words that stop the engine's parser are taken out and the rest is read again, at most so often


@dataclass(slots=True)
class Occurrence:
    """One option of the command with its value."""

    option: Option
    setting: Setting
    text: str  # the words of the value, joined


@dataclass(slots=True)
class Parsed:
    """What the parser found, in the order in which the engine takes it."""

    occurrences: list[Occurrence] = field(default_factory=list)
    errors: list[LaunchNotice] = field(default_factory=list)
    unknown: list[tuple[Placed, list[Placed]]] = field(default_factory=list)  # words no option takes, each with the words after it
    positional: Placed | None = None
    remarks: list[tuple[Occurrence, LaunchNotice]] = field(default_factory=list)  # notices that hold only where the occurrence counts


class _Refused(Exception):
    """The parser refuses the command as a whole."""


class _Parser(argparse.ArgumentParser):
    def __init__(self, parsed: Parsed, converters: Mapping[str, Converter], null_choice: bool) -> None:
        super().__init__(prog="", add_help=False, exit_on_error=False, argument_default=argparse.SUPPRESS)
        self.parsed, self.converters, self.null_choice = parsed, dict(converters), null_choice
        self.seen: dict[str, list[Placed]] = {}  # the words that named an option, by its first spelling
        self.done: dict[str, int] = {}  # how many of them have been carried out
        self.ambiguous: list[Placed] = []
        self.last: Placed | None = None

    def error(self, message: str) -> NoReturn:
        raise _Refused(message)

    def _parse_optional(self, arg_string: str) -> Any:
        try:
            found: Any = super()._parse_optional(arg_string)
        except (_Refused, argparse.ArgumentError) as error:
            return self._ambiguous(arg_string, str(error))
        if isinstance(found, list) and len(found) > 1:  # Python 3.12 and later leave the complaint to the caller
            return self._ambiguous(arg_string, ", ".join(part[1] for part in found))
        first: Any = found[0] if isinstance(found, list) else found
        action = first[0] if first else None
        if isinstance(arg_string, Placed) and isinstance(action, _Record):
            self.seen.setdefault(action.entry.flags[0], []).append(arg_string)
        return tagged(found, arg_string)

    def _ambiguous(self, word: str, message: str) -> Any:
        """Reports the word and answers what argparse answers for an option that it does not know."""
        matches = (message.partition("could match ")[2] or message).split(", ")
        if isinstance(word, Placed):
            names = ", ".join(f"`{match}`" for match in matches[:_LISTED]) + (f" and {len(matches) - _LISTED} more" if len(matches) > _LISTED else "")
            text = f"`{word.spelling}` is short for more than one option: {names}"
            size = f"{str(word).partition('=')[0]}-size"
            remedy = f"did you mean `{size}`?" if size in matches else "write the option in full"
            self.parsed.errors.append(LaunchNotice("ambiguous-flag", text, origin_of(word), remedy))
            self.ambiguous.append(word)
        return super()._parse_optional("-\0")


class _Record(argparse.Action):
    """Writes an occurrence down; conversion happens here, where the place of the option is known."""

    def __init__(self, option_strings: Sequence[str], dest: str, entry: Option, **keywords: Any) -> None:
        super().__init__(option_strings, dest, **keywords)
        self.entry = entry

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None) -> None:
        assert isinstance(parser, _Parser)
        word = option_string if isinstance(option_string, Placed) else parser.last
        assert word is not None
        parser.last = word
        parser.done[self.entry.flags[0]] = parser.done.get(self.entry.flags[0], 0) + 1
        words = [] if values is None else values if isinstance(values, list) else [values]
        taken = [value for value in words if isinstance(value, str)]
        origin = origin_of(word, taken)
        try:
            value = self._value(parser, taken, word)
        except ValueError as error:
            said = f"does not take `{shown(' '.join(taken))}`: {error}" if taken else str(error)
            parser.parsed.errors.append(LaunchNotice("invalid-value", f"`{word.spelling}` {said}", origin))
            return
        leaves = leaves_of(value, taken[0] if len(taken) == 1 else "", origin, word.spelling)
        parser.parsed.occurrences.append(Occurrence(self.entry, Setting(value, origin, word.spelling, leaves), " ".join(taken)))

    def _value(self, parser: _Parser, taken: list[str], word: Placed) -> Any:
        entry = self.entry
        if entry.action == "help":
            raise ValueError("prints help and does not start the engine")
        if entry.action == "refuse":
            raise ValueError("is no longer supported")
        if entry.action == "boolean":
            return str(word) not in entry.negative
        if entry.action in ("true", "ignore"):
            return True
        converted = [self._one(parser, text) for text in taken]
        if entry.action == "constant":
            return entry.constant
        if entry.nargs in ("+", "*"):
            return converted
        if not converted and entry.constant is None:
            raise ValueError("needs a value")  # argparse takes `--flag=--` for no value at all
        return converted[0] if converted else entry.constant

    def _one(self, parser: _Parser, text: str) -> Any:
        value = convert(self.entry.type, str(text), parser.converters)
        choices = self.entry.choices
        if choices is not None and value not in choices and (str(value) not in choices or (value is None and not parser.null_choice)):
            raise ValueError("the choices are " + ", ".join(f"`{choice}`" for choice in choices))
        return value


class _Positional(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None) -> None:
        assert isinstance(parser, _Parser)
        if isinstance(values, Placed):
            parser.parsed.positional = values


def leaves_of(value: Any, text: str, origin: Origin, spelling: str) -> dict[str, Setting]:
    """The leaves of a dictionary, each from the word that set it where several were put together."""
    if not isinstance(value, dict):
        return {}
    places = text.leaves if isinstance(text, Placed) else {}
    leaves = {}
    for path, inner in flat(value):
        word = next((places[path[:end]] for end in range(len(path), 0, -1) if path[:end] in places), None)
        leaves[".".join(path)] = Setting(inner, origin, spelling) if word is None else Setting(inner, origin_of(word), word.spelling)
    leaves.pop("", None)
    return leaves


def _wanted(catalogue: Catalogue, words: Sequence[str]) -> list[Option]:
    """The options that some word can mean: spelled out, abbreviated, or with a value glued to a short one."""
    keys = {word.split("=", 1)[0] for word in words if word[:1] == "-"} - {"-", "--"}
    return [option for option in catalogue.options if any(flag.startswith(key) or key.startswith(flag) for flag in option.spellings for key in keys)]


def _build(catalogue: Catalogue, words: Sequence[str], parser: _Parser, positional: str | None) -> _Parser:
    if positional is not None:
        parser.add_argument(positional, nargs="?", action=_Positional)
    for option in _wanted(catalogue, words):
        nargs = option.nargs
        if option.action == "constant":
            nargs = None if option.nargs == 1 else 0
        elif option.action in ("true", "boolean", "help", "ignore", "refuse"):
            nargs = 0
        parser.add_argument(*option.spellings, dest=option.dest, action=_Record, entry=option, nargs=nargs, const=option.constant)
    return parser


def parse(
    catalogue: Catalogue, words: Sequence[Placed], positional: str | None = None, converters: Mapping[str, Converter] = CONVERTERS, null_choice: bool = True
) -> Parsed:
    """The options of `words` as argparse reads them. A word that argparse stops at is an error; it is left out and the
    rest is read all the same, so that every error and every value is known. `null_choice` says whether an option with
    choices takes the word `None`."""
    stopped: list[LaunchNotice] = []
    words = list(words)
    for _ in range(_ATTEMPTS):
        parsed = Parsed()
        parser = _build(catalogue, words, _Parser(parsed, converters, null_choice), positional)
        try:
            _, rest = parser.parse_known_args(list(words), argparse.Namespace())
        except argparse.ArgumentError as error:
            word = _culprit(parser, error)
            if word is None:
                stopped.append(LaunchNotice("invalid-value", str(error), words[0].origin))
                break
            stopped.append(_stop(word, error.message))
            position = next(index for index, candidate in enumerate(words) if candidate is word)
            del words[position]
            continue
        except _Refused as error:
            stopped.append(LaunchNotice("invalid-value", str(error), words[0].origin))
            break
        parsed.unknown = _runs([word for word in rest if isinstance(word, Placed)], parser.ambiguous)
        break
    parsed.errors = stopped + parsed.errors
    return parsed


def _culprit(parser: _Parser, error: argparse.ArgumentError) -> Placed | None:
    """The word argparse stopped at: of the words that named the option, the first that has not been carried out."""
    name = (error.argument_name or "").split("/")[0]
    seen, done = parser.seen.get(name, []), parser.done.get(name, 0)
    return seen[min(done, len(seen) - 1)] if seen else None


def _stop(word: Placed, message: str) -> LaunchNotice:
    if "explicit" in message:
        return LaunchNotice("invalid-value", f"`{word.spelling}` takes no value: `{shown(word.written)}`", origin_of(word), f"write `{word.spelling}` alone")
    return LaunchNotice("missing-value", f"`{word.spelling}` needs a value", origin_of(word))


def _runs(rest: list[Placed], reported: list[Placed]) -> list[tuple[Placed, list[Placed]]]:
    """Words that no option took; each unknown option with the words up to the next one."""
    runs: list[tuple[Placed, list[Placed]]] = []
    for word in rest:
        if runs and not re.match(r"-\D", word) and runs[-1][0].startswith("-") and runs[-1][0] != "--":
            runs[-1][1].append(word)
        else:
            runs.append((word, []))
    return [(word, after) for word, after in runs if not any(word is other for other in reported)]


def in_order(errors: Sequence[LaunchNotice]) -> list[LaunchNotice]:
    """Errors in the order of the command, those of a file first."""
    return sorted(errors, key=lambda notice: -1 if notice.origin.argument is None else notice.origin.argument)


def fill(settings: Settings, parsed: Parsed) -> None:
    """The occurrences as values: the last one of a name counts, lists that append are joined."""
    for occurrence in parsed.occurrences:
        option, setting = occurrence.option, occurrence.setting
        if option.action == "ignore":
            continue
        if option.action == "append":
            earlier = settings.values.get(option.dest)
            setting = Setting([*(earlier.value if earlier else []), setting.value], setting.origin, setting.spelling)
        settings.values[option.dest] = setting
