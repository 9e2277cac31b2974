"""Why a release does not take an option: it belongs to another release, it is misspelt, or it never existed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from policy.launchers.catalogue import Catalogue, catalogue_versions, read_catalogue
from policy.launchers.found import LaunchNotice
from policy.launchers.placed import Placed, origin_of, shown


def explain_unknown(catalogue: Catalogue, word: Placed, after: Sequence[Placed]) -> LaunchNotice:
    """One word (with the words after it) that no option of the catalogue takes."""
    engine, release = catalogue.engine, f"{catalogue.engine} {catalogue.version}"
    flag = str(word).split("=", 1)[0]
    origin = origin_of(word, after)
    if not flag.startswith("-") or flag in ("-", "--"):
        return LaunchNotice("unexpected-word", f"`{shown(word.written)}` belongs to no option", origin, "write the option before it, or remove it")
    name = word.spelling or flag
    if (short := _glued(catalogue, flag)) is not None:
        return LaunchNotice("unknown-flag", f"`{name}` is not an option of {release}", origin, f"separate the value: `{short} {flag[len(short) :]}`")
    if (right := _other_form(catalogue, flag)) is not None:
        return LaunchNotice("unknown-flag", f"`{name}` is not an option of {release}", origin, f"write {_as_written(word, catalogue, right)}")
    there = [version for version in catalogue_versions(engine) if flag in read_catalogue(engine, version).by_flag]
    if there:
        text = f"`{name}` is not an option of {release}; {_window(engine, catalogue.version, there)}"
        return LaunchNotice("flag-of-another-version", text, origin, "remove it, or use a release that has it")
    from difflib import get_close_matches  # only where something is wrong

    close = next((match for match in get_close_matches(flag, sorted(catalogue.by_flag), 3, 0.75) if _alike(flag, match)), None)
    remedy = f"did you mean {_as_written(word, catalogue, close)}?" if close else "remove it"
    return LaunchNotice("unknown-flag", f"`{name}` is not an option of {release}", origin, remedy)


def _other_form(catalogue: Catalogue, flag: str) -> str | None:
    """The option that is meant where only the dashes or underscores are wrong."""
    twin = flag[1:] if flag.startswith("--") else "-" + flag
    for candidate in (twin, flag.replace("_", "-"), twin.replace("_", "-")):
        if candidate in catalogue.by_flag:
            return candidate
    long = [spelling for spelling in catalogue.by_flag if spelling.startswith(twin)] if twin.startswith("--") else []
    return long[0] if len({catalogue.by_flag[spelling].dest for spelling in long}) == 1 else None


def _alike(flag: str, match: str) -> bool:
    """Whether two names are close also without the prefixes that many options share."""
    from difflib import SequenceMatcher

    left, right = (re.sub(r"^-+(no-|enable-|disable-)?", "", name) for name in (flag, match))
    return SequenceMatcher(None, left, right).ratio() >= 0.7


def _glued(catalogue: Catalogue, flag: str) -> str | None:
    """The short option that `-tp2` begins with."""
    if flag.startswith("--"):
        return None
    return next((option for option in catalogue.by_flag if not option.startswith("--") and flag.startswith(option) and flag[len(option) :].isdigit()), None)


def _as_written(word: Placed, catalogue: Catalogue, flag: str) -> str:
    """The right option in the form of the wrong one: a key where it stands in a file."""
    if word.origin.kind != "file":
        return f"`{flag}`"
    long = next((spelling for spelling in catalogue.by_flag[flag].flags if spelling.startswith("--")), flag)
    return f"`{long.lstrip('-')}`"


def _window(engine: str, version: str, there: Sequence[str]) -> str:
    versions = catalogue_versions(engine)
    before = [known for known in there if versions.index(known) < versions.index(version)]
    later = [known for known in there if known not in before]
    parts = ([f"known up to {before[-1]}"] if before else []) + ([f"known from {later[0]} on"] if later else [])
    return " and ".join(parts)
