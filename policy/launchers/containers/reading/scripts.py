"""A script -> its launches: one run for what holds without further knowledge, one more for every open condition."""

from __future__ import annotations

from collections.abc import Mapping

from policy.launchers.containers.reading.launches import (
    environment_of,
    model_of,
    role_of_words,
    signature,
    words_of,
)
from policy.launchers.containers.reading.shell_conditions import Condition
from policy.launchers.containers.reading.shell_expand import Field, Place, Value, Variables
from policy.launchers.containers.reading.shell_run import Reached, Run
from policy.launchers.found import FoundLaunch, Word
from policy.launchers.yaml_places import Places
from policy.origin import Origin

MAX_RUNS = 24


def read_script(
    text: str,
    name: str,
    places: Places | None = None,
    variables: Mapping[str, Field] | None = None,
    positional: list[Field] | None = None,
    versions: Mapping[str, Field] | None = None,
) -> list[FoundLaunch]:
    """The launches of a script. `variables` are set from outside and not exported by the script itself."""
    where = places or Places.of_text(text)
    found: list[_Taken] = []
    queue: list[dict[Condition, bool]] = [{}]
    tried: set[frozenset[tuple[Condition, bool]]] = set()
    installed: dict[str, Field] = dict(versions or {})
    while queue and len(tried) < MAX_RUNS:
        choices = queue.pop(0)
        identity = frozenset(choices.items())
        if identity in tried:
            continue
        tried.add(identity)
        run = Run(name, choices)
        known = Variables({key: Value(item.text, item.place) for key, item in (variables or {}).items()}, positional)
        run.script(text, where, known)
        installed.update({engine: version for engine, version in run.versions.items() if engine not in installed})
        queue += [{**choices, condition: not condition.holds} for condition in run.conditions if condition not in choices]
        places = {reached.key[0] for reached in run.reached}
        for reached in run.reached:
            _take(found, reached, choices, places)
    launches = [launch for _, _, launch, _ in found]
    _tell_when(found)
    for launch in launches:
        version = installed.get(launch.engine)
        if version is not None and launch.image is None:
            launch.version = Word(version.text, Origin("file", f"{launch.engine}=={version.text}", *version.place))
    return launches


_Taken = tuple[Reached, dict[Condition, bool], FoundLaunch, tuple[str, ...]]


def _take(found: list[_Taken], reached: Reached, choices: dict[Condition, bool], places: set[Place]) -> None:
    """Adds a command that was reached, unless the same launch is there already: from the same place in the text, or from
    a place that this run does not come to (`places`), so that this one is started instead of it."""
    texts = [item.text for item in reached.started.words]
    environment = {key: item.text for key, item in reached.environment.items()}
    material = signature(texts, environment, reached.files)
    place = reached.key[0]
    same_place = [one for one in found if one[0].key[0] == place]
    if any(one[3] == material for one in same_place):
        return
    if choices and any(one[3] == material and one[0].started.engine == reached.started.engine and one[0].key[0] not in places for one in found):
        return
    launch = FoundLaunch(reached.started.engine, words_of(reached.started.words), environment_of(reached.environment), files=reached.files)
    if reached.started.image is not None:
        launch.image = Word(reached.started.image.text, Origin("file", "image", *reached.started.image.place))
    launch.role = role_of_words(texts)
    if reached.lost is not None:
        launch.notes.append(f"options from line {reached.lost} on stand behind a comment or a blank line and are not part of the command")
    without_model = signature(texts, environment, reached.files, with_model=False)
    for at, (other, _, base, _) in enumerate(found):
        if other.key[0] != place or signature([item.text for item in other.started.words], {k: v.text for k, v in other.environment.items()}, other.files, False) != without_model:
            continue
        if not choices:
            break  # the run itself starts it twice with different models
        if model_of([item.text for item in other.started.words]) is None and model_of(texts) is not None:
            found[at] = (reached, {}, launch, material)  # the condition only gives what was missing
            return
        if base.words and "$" in (model_of(texts) or "$"):
            return  # another variable names the model: the same launch otherwise
    found.append((reached, choices, launch, material))


def _tell_when(found: list[_Taken]) -> None:
    """Conditions are told where they choose among launches."""
    if len(found) < 2:
        return
    for reached, choices, launch, _ in found:
        said: list[str] = []
        held = dict(reached.conditions)
        for condition, holds in {**choices, **held}.items():
            if condition.places:
                continue
            if holds or condition in held:
                said.append(condition.words(holds))
        if not said:
            rivals = [other_choices for other, other_choices, _, _ in found if other.key[0] == reached.key[0] and other_choices]
            said = [condition.words(not holds) for other_choices in rivals for condition, holds in other_choices.items() if not condition.places]
        launch.when = " and ".join(dict.fromkeys(said)) or None
