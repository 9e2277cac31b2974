"""The command line of SGLang as a release of SGLang reads it: `python -m sglang.launch_server …` and `sglang serve …`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import PurePath

from policy.launchers.catalogue import Catalogue, Option, known, read_table, since
from policy.launchers.command import Files, Parsed, fill, in_order, parse
from policy.launchers.config_file import Entry, pull_config
from policy.launchers.found import LaunchNotice, Word
from policy.launchers.lost_settings import lost_settings
from policy.launchers.placed import Placed, origin_of, place, shown
from policy.launchers.settings import Settings
from policy.launchers.unknown_flags import explain_unknown
from policy.launchers.versions_note import best_of
from policy.origin import Origin
from policy.versions import Version, line_start

ENGINE = "sglang"
_MODULES = ("sglang.launch_server", "sglang.srt.launch_server")


def read_command(words: Sequence[Word], version: str | None = None, files: Files = {}) -> Settings:  # noqa: B006 never written to
    """Reads one command. `words` begins with the program; `version` is SGLang's (None: the newest release that is known
    is assumed and that is said); `files` gives the text of a `--config FILE`. Nothing is raised for bad input: what
    SGLang refuses is in `errors`, what it loses in `notices`. Names are the fields of its `ServerArgs`."""
    return best_of(ENGINE, version, lambda catalogue: _read(place(words), version, catalogue, files))


def entry_point(words: Sequence[Word]) -> tuple[str | None, int]:
    """Which of SGLang's entry points a command starts (`serve`, `launch_server`, or None) and the index of the word after it."""
    for index, word in enumerate(words):
        text, after = word.text, words[index + 1].text if index + 1 < len(words) else ""
        if text.rsplit("/", 1)[-1] == "sglang" or (text == "-m" and after in ("sglang", "sglang.cli.main")):
            start = index + (2 if text == "-m" else 1)
            return ("serve", start + 1) if start < len(words) and words[start].text == "serve" else (None, start)
        if text == "-m" and after in _MODULES:
            return "launch_server", index + 2
        if re.search(r"(^|/)sglang/(srt/)?launch_server\.py$", text):
            return "launch_server", index + 1
    return None, 0


def _read(words: list[Placed], version: str | None, catalogue: Catalogue, files: Files) -> Settings:
    settings = Settings(ENGINE, version, catalogue.version)
    entry, start = entry_point([Word(str(word), word.origin) for word in words])
    if entry is None:
        origin = words[0].origin if words else Origin("unknown")
        settings.errors.append(LaunchNotice("not-an-engine-command", "the command does not start SGLang's server", origin, "begin it with `sglang serve`"))
        return settings
    words = words[start:]
    if entry == "serve":
        words = _serve(words, settings, version)
    if any(word == "--config" and following != "" for word, following in zip_longest(words, words[1:])):  # an empty name reads no file
        words = _pull_config(words, settings, catalogue, version, files)
    parsed = parse(catalogue, words)
    settings.errors += [*parsed.errors, *(explain_unknown(catalogue, word, after) for word, after in parsed.unknown)]
    settings.notices += [*lost_settings(parsed.occurrences), *_deprecated(parsed, version), *_ignored_config(parsed)]
    fill(settings, parsed)
    hidden = ("missing-value", "config-file-unreadable", "config-file-invalid")  # what may hide the model
    if "model_path" not in settings.values and not any(notice.kind in hidden for notice in settings.errors):
        origin = words[0].origin if words else Origin("unknown")
        settings.errors.append(LaunchNotice("missing-model", "no model is given", origin, "give `--model-path`"))
    settings.errors = in_order(settings.errors)
    return settings


def _serve(words: list[Placed], settings: Settings, version: str | None) -> list[Placed]:
    """What `sglang serve` takes out of the words before the server's own parser sees them."""
    table, release = read_table(ENGINE, "behaviour"), known(version)
    kept: list[Placed] = []
    rest = iter(words)
    for word in rest:
        if not since(table["model_type_option"], release) or not re.match(r"--model-type(=|$)", word):
            kept.append(word)
        elif word == "--model-type" and next(rest, None) is None:
            settings.errors.append(LaunchNotice("missing-value", "`--model-type` needs a value", origin_of(word)))
    if since(table["positional_model"], release) and kept and not kept[0].startswith("-"):
        kept.insert(0, Placed("--model-path", kept[0].origin, kept[0].written, "--model-path"))
    return kept


def _pull_config(words: list[Placed], settings: Settings, catalogue: Catalogue, version: str | None, files: Files) -> list[Placed]:
    """The file's keys become options in front of the command's own, so that the command's win."""
    pulled = pull_config(words, files, lambda name: PurePath(name).suffix.lower() in (".yaml", ".yml"), empty=True)
    table, release = read_table(ENGINE, "behaviour"), known(version)
    keys, nested = _Keys(catalogue, since(table["config_keys"], release)), since(table["nested_config"], release)
    added: list[Placed] = []
    for entry in pulled.file.entries:
        try:
            added += _entry_words(entry, keys, nested)
        except (TypeError, ValueError, AttributeError) as error:
            said = str(error) if type(error) is ValueError else "it cannot be turned into an option"
            notice = LaunchNotice("config-file-invalid", f"`{entry.key}` is not taken from a file: {said}", entry.origin, "give it on the command line")
            pulled.file.errors.append(notice)
    settings.errors += pulled.file.errors
    settings.notices += pulled.file.notices
    return added + pulled.rest


class _Keys:
    """Which keys of a file stand for a switch, and which ones the engine refuses in a file."""

    def __init__(self, catalogue: Catalogue, rule: str) -> None:
        self.rule = rule
        switches = [option for option in catalogue.options if option.action == "true" and option.instead is None]
        values = [option for option in catalogue.options if option.action == "store" and option.type != "lora_path" and option.instead is None]
        if rule == "spelling":  # retired options that take one value are read as well
            retired = [option for option in catalogue.options if option.instead is not None]
            values += [option for option in retired if option.nargs == 1 or (option.action == "store" and option.nargs is None)]
        known_ones = {id(option) for option in [*switches, *values]}  # comparing options field by field is slow
        others = [option for option in catalogue.options if id(option) not in known_ones and option.action != "help"]
        self.switches = {key for option in switches for key in self.of(option)}
        self.refused: set[str] = set()
        if rule != "plain":
            taken = {key for option in [*switches, *values] for key in self.of(option)} if rule == "spelling" else set()
            self.refused = {key for option in others if option.dest != "config" for key in self.of(option)} - taken

    def of(self, option: Option) -> set[str]:
        """The keys that mean an option: its name, and from 0.5.23 on every long spelling."""
        return {option.dest} | ({flag[2:].replace("-", "_") for flag in option.spellings if flag.startswith("--")} if self.rule == "spelling" else set())


def _entry_words(entry: Entry, keys: _Keys, nested: str) -> list[Placed]:
    """One key of the file as the words that the engine makes of it."""
    name = entry.key if keys.rule == "plain" else entry.key.replace("-", "_")
    if name in keys.refused:
        raise ValueError("its kind of option is not supported there")
    flag = entry.word(f"--{entry.key}")
    if isinstance(entry.value, bool):
        if name in keys.switches:
            return [flag] if entry.value else []
        return [flag, entry.word(str(entry.value).lower())]
    if isinstance(entry.value, list):
        return [flag, *(entry.word(str(item)) for item in entry.value)] if entry.value else []
    if isinstance(entry.value, dict) and nested == "json":
        return [flag, entry.word(json.dumps(entry.value), leaves=True)]
    return [flag, entry.word(str(entry.value))]


def _deprecated(parsed: Parsed, version: str | None) -> list[LaunchNotice]:
    table, release = read_table(ENGINE, "behaviour")["deprecated"], known(version)
    notices = []
    for occurrence in parsed.occurrences:
        later = table.get(occurrence.option.dest)
        instead = occurrence.option.instead
        if instead is None and later and (release is None or line_start(Version(later["since"])) <= release):
            instead = later["instead"]
        if instead is not None:
            text = f"`{occurrence.setting.spelling}` is deprecated" + (" and has no effect" if occurrence.option.action == "ignore" else "")
            remedy = f"write `{instead}`" if instead else "remove it"
            notices.append(LaunchNotice("deprecated-flag", text, occurrence.setting.origin, remedy))
    return notices


def _ignored_config(parsed: Parsed) -> list[LaunchNotice]:
    """`--config=FILE`: argparse takes it, and nothing ever reads it."""
    return [
        LaunchNotice(
            "config-file-ignored",
            f"`{shown(occurrence.setting.origin.detail)}` is never read: the engine looks for the word `--config` alone",
            occurrence.setting.origin,
            f"separate the name: `--config {occurrence.text}`",
        )
        for occurrence in parsed.occurrences
        if occurrence.option.dest == "config"
    ]
