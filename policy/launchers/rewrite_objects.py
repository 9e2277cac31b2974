"""An object of the command (`--compilation-config`) with some of its leaves changed: merged into the one form the user
has, since a second form would replace the first as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from policy.launchers.catalogue import choose, read_catalogue
from policy.launchers.converters import expand_integers
from policy.launchers.json_text import edited_json
from policy.launchers.rewriting import Change, Edit
from policy.launchers.settings import Setting
from policy.launchers.vllm_objects import read_object
from policy.records import dataclass

ENGINE = "vllm"
#: The options that set the object in some release; `-O` of older releases is one of them.
OPTIONS = ("--compilation-config", "-cc")
LEVEL = "-O"


@dataclass(frozen=True, slots=True)
class Form:
    """One place where an object is set: as JSON, or one dotted leaf. `end` is the index of its last word; `text` is the
    value as written; `joined` says that it stands after an equals sign."""

    start: int
    end: int
    spelling: str
    leaf: str | None
    text: str
    joined: bool

    def put(self, text: str) -> Edit:
        """The edit that gives this form another value."""
        head = self.spelling if self.leaf is None else f"{self.spelling}.{self.leaf}"
        return Edit("replace", self.end, (f"{head}={text}" if self.joined else text,))


def object_edits(words: Sequence[str], given: Setting | None, changes: Sequence[Change], version: str | None) -> list[Edit]:
    """The edits that make the changes. `given` is the object as the engine reads it from the words."""
    wanted = {change.path.partition(".")[2]: change.value for change in changes}
    forms = forms_in(words, given, version)
    if not forms:
        if given is not None and isinstance(given.value, dict) and given.value:
            # the object of a file would be replaced as a whole by an option of the command, which has to hold all of it
            return [Edit("insert", len(words) - 1, (OPTIONS[0], merged_text(given.value, wanted, version)))]
        said = list(dict.fromkeys(change.words for change in changes))
        if len(said) > 1 and any("." not in words_of[0] for words_of in said):
            return [Edit("insert", len(words) - 1, (OPTIONS[0], merged_text({}, wanted, version)))]
        return [Edit("insert", len(words) - 1, tuple(word for words_of in said for word in words_of))]
    whole = [form for form in forms if form.leaf is None]
    dotted = [form for form in forms if form.leaf is not None]
    if len(whole) == 1 and not dotted:
        held = _json_object(whole[0].text)
        return [] if held is None else [whole[0].put(merged_text(held, wanted, version, whole[0].text))]
    if dotted and not whole and len({form.spelling for form in dotted}) == 1:
        return _dotted_edits(dotted, wanted, version)
    # several forms: the engine keeps the last and forgets the rest, so that one form with what counts takes their place
    kept = forms[-1]
    effective = given.value if given is not None and isinstance(given.value, dict) else {}
    edits = [Edit("remove", index) for form in forms if form is not kept for index in range(form.start, form.end + 1)]
    text = merged_text(effective, wanted, version)
    if kept.start == kept.end:
        return [*edits, Edit("replace", kept.start, (f"{kept.spelling}={text}",))]
    return [*edits, Edit("replace", kept.start, (kept.spelling,)), Edit("replace", kept.end, (text,))]


def forms_in(words: Sequence[str], given: Setting | None, version: str | None) -> list[Form]:
    """Every form of the object among the words; `given` tells the spelling where the user shortened the option."""
    by_flag = read_catalogue(ENGINE, choose(ENGINE, version)[0]).by_flag
    levels = LEVEL in by_flag and by_flag[LEVEL].dest == "compilation_config"
    spelled = given.spelling.partition(".")[0].replace("_", "-") if given is not None else ""
    options = {*OPTIONS, *((spelled,) if spelled.startswith("--c") else ())}
    forms = []
    for index, word in enumerate(words):
        head, equals, tail = word.partition("=")
        base, dot, leaf = head.partition(".")
        following = words[index + 1] if index + 1 < len(words) else None
        dashed = base.replace("_", "-") if base.startswith("--") else base
        if dashed == LEVEL and (dot or _is_object(tail if equals else following)):
            pass
        elif levels and word.startswith(LEVEL) and word[2:].removeprefix("=") in ("0", "1", "2", "3"):
            forms.append(Form(index, index, LEVEL, "level", word[-1], True))
            continue
        elif levels and word == LEVEL and following in ("0", "1", "2", "3"):
            forms.append(Form(index, index + 1, LEVEL, "level", following or "", False))
            continue
        elif dashed not in options:
            continue
        if not equals and following is None:
            continue
        forms.append(Form(index, index if equals else index + 1, base, leaf if dot else None, tail if equals else following or "", bool(equals)))
    return forms


def _is_object(text: str | None) -> bool:
    return text is not None and text.lstrip().startswith("{")


def _dotted_edits(forms: Sequence[Form], wanted: Mapping[str, Any], version: str | None) -> list[Edit]:
    written = {form.leaf or "": form for form in forms}
    aliases = moved(nested({leaf: _value(form.text) for leaf, form in written.items()}), version)
    edits: list[Edit] = []
    new: list[str] = []
    for path, value in wanted.items():
        places = [form for form in forms if (form.leaf or "") in (path, aliases.get(path))]
        edits.extend(form.put(_word(value)) for form in places)
        if not places:
            new.append(f"{forms[-1].spelling}.{path}={_word(value)}")
    if new:
        edits.append(Edit("insert", forms[-1].end, tuple(new)))
    return edits


def merged_text(held: Mapping[str, Any], wanted: Mapping[str, Any], version: str | None, like: str = "") -> str:
    """The object with the leaves set, as JSON; written into the text `like` where that holds the object, so that its
    spacing and order stay. A key under an older name keeps that name."""
    made = merged(held, wanted, version)
    try:
        text = edited_json(like, made)
        if json.loads(text) == made:
            return text
    except ValueError:
        pass
    return json.dumps(made, ensure_ascii=False)


def merged(held: Mapping[str, Any], wanted: Mapping[str, Any], version: str | None) -> dict[str, Any]:
    """The object with the leaves set."""
    made: dict[str, Any] = json.loads(json.dumps(held))
    aliases = moved(made, version)
    for path, value in wanted.items():
        alias = aliases.get(path)
        for one in (path, alias):
            if one is None or (one == path and alias is not None and _at(made, path) is None):
                continue
            *folders, last = one.split(".")
            inside = made
            for folder in folders:
                if not isinstance(inside.get(folder), dict):
                    inside[folder] = {}
                inside = inside[folder]
            inside[last] = value
    return made


def moved(value: dict[str, Any], version: str | None) -> dict[str, str]:
    """Where the release takes a key from an older name: path -> the path that is written."""
    return read_object(value, version).moved


def nested(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted leaves as an object."""
    made: dict[str, Any] = {}
    for path, value in leaves.items():
        *folders, last = path.replace("-", "_").split(".")
        inside = made
        for folder in folders:
            inside = inside.setdefault(folder, {})
            if not isinstance(inside, dict):
                return made
        inside[last] = value
    return made


def _at(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _json_object(text: str) -> dict[str, Any] | None:
    for written in (text, expand_integers(text)):
        try:
            held = json.loads(written)
        except (ValueError, RecursionError):
            continue
        return held if isinstance(held, dict) else None
    return None


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else value if isinstance(value, str) else json.dumps(value)
