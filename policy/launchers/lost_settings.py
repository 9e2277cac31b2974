"""Settings that are given and then lost without a word: the same option twice, one object written in two forms."""

from __future__ import annotations

from collections.abc import Sequence

from policy.launchers.command import Occurrence
from policy.launchers.found import LaunchNotice
from policy.launchers.settings import Setting

_LISTED = 6  # keys named in one message


def lost_settings(occurrences: Sequence[Occurrence]) -> list[LaunchNotice]:
    """One notice for each option that a later one replaces with another value. A word of the command that replaces a key
    of a file is what the user means, so only what is lost beside it counts."""
    notices = []
    last = {occurrence.option.dest: occurrence for occurrence in occurrences}
    for occurrence in occurrences:
        winner = last[occurrence.option.dest]
        if occurrence is winner or occurrence.option.action in ("append", "ignore"):
            continue
        notice = _lost(occurrence.setting, winner.setting)
        if notice is not None:
            notices.append(notice)
    return notices


def _lost(given: Setting, winner: Setting) -> LaunchNotice | None:
    meant = given.origin.kind == "file" and winner.origin.kind != "file"
    if isinstance(given.value, dict) and isinstance(winner.value, dict):
        missing = [path for path, leaf in given.leaves.items() if _is_lost(path, leaf, winner, meant)]
        if not missing:
            return None
        keys = ", ".join(f"`{path}`" for path in missing[:_LISTED]) + (f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else "")
        text = f"`{given.spelling}` is replaced as a whole by {winner.origin}: {keys} {'is' if len(missing) == 1 else 'are'} lost"
        origin = given.leaves[missing[0]].origin if len(missing) == 1 else given.origin
        return LaunchNotice("lost-setting", text, origin, _remedy(given, winner))
    if meant or given.value == winner.value:
        return None
    text = f"`{given.origin.detail}` is replaced by {winner.origin}"
    return LaunchNotice("duplicate-setting", text, given.origin, f"keep one of them: `{winner.origin.detail}` counts")


def _is_lost(path: str, leaf: Setting, winner: Setting, meant: bool) -> bool:
    """A key is there still if the winner has it, or an object around it or inside it that says the same."""
    there = winner.leaves.get(path)
    if there is not None:
        return not meant and there.value != leaf.value
    covered = any(other.startswith(f"{path}.") or path.startswith(f"{other}.") for other in winner.leaves)
    return not (covered and meant)


def _remedy(given: Setting, winner: Setting) -> str:
    if given.origin.kind == "file" and winner.origin.kind != "file":
        return f"move `{winner.spelling}` into the file, or repeat the file's keys beside it"
    if winner.spelling.startswith("-"):
        return f"write all keys in one form, for example each as `{winner.spelling}.KEY=VALUE`"
    return "write all keys in one place"
