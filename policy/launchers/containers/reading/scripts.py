"""A script -> its launches: one run for what holds without further knowledge, one more for every open condition."""

from __future__ import annotations

from collections.abc import Mapping

from policy.launchers.containers.reading.launches import environment_of, joins, model_of, role_of_words, signature, words_of
from policy.launchers.containers.reading.shell_conditions import Condition
from policy.launchers.containers.reading.shell_expand import Field, Place, Value, Variables
from policy.launchers.containers.reading.shell_run import Reached, Run
from policy.launchers.found import FoundLaunch, Word
from policy.launchers.yaml_places import Places
from policy.origin import Origin
from policy.records import dataclass

MAX_RUNS = 24
MAX_STEPS = 120_000  # of all runs together
MAX_CHARACTERS = 500_000  # of a script; what comes after is not read


@dataclass(slots=True)
class _Taken:
    """A launch with the command it comes from, the choices of the run that came to it, and what of it is material."""

    reached: Reached
    choices: dict[Condition, bool]
    launch: FoundLaunch
    material: tuple[str, ...]
    without_model: tuple[str, ...]


def read_script(
    text: str,
    name: str,
    places: Places | None = None,
    variables: Mapping[str, Field] | None = None,
    positional: list[Field] | None = None,
    versions: Mapping[str, Field] | None = None,
) -> list[FoundLaunch]:
    """The launches of a script. `variables` are set from outside; `positional` are `$0`, `$1` and so on; `versions` are
    those of engines that something before the script installed."""
    text = text[:MAX_CHARACTERS]
    taken: list[_Taken] = []
    queue: list[dict[Condition, bool]] = [{}]
    tried: set[frozenset[tuple[Condition, bool]]] = set()
    installed: dict[str, Field] = dict(versions or {})
    steps = 0
    while queue and len(tried) < MAX_RUNS and steps < MAX_STEPS:
        choices = queue.pop(0)
        identity = frozenset(choices.items())
        if identity in tried:
            continue
        tried.add(identity)
        run = Run(choices)
        known = Variables({key: Value(item.text, item.place) for key, item in (variables or {}).items()}, positional)
        run.script(text, name, places or Places.of_text(text), known)
        steps += run.steps
        for engine, version in run.versions.items():
            installed.setdefault(engine, version)
        for condition in list(run.conditions)[:MAX_RUNS]:
            if condition.relation == "is not set":
                continue  # it guards a default, which holds as `${NAME:-default}` does
            if condition not in choices and len(queue) + len(tried) < 2 * MAX_RUNS:
                queue.append({**choices, condition: not condition.holds})
        came_to = {reached.place for reached in run.reached}
        for reached in run.reached:
            _take(taken, reached, choices, came_to)
    _tell_when(taken)
    for one in taken:
        pinned = installed.get(one.launch.engine)
        if pinned is not None and one.launch.image is None:
            one.launch.version = Word(pinned.text, Origin("file", f"{one.launch.engine}=={pinned.text}", *pinned.place))
    return [one.launch for one in taken]


def _take(taken: list[_Taken], reached: Reached, choices: dict[Condition, bool], came_to: set[Place]) -> None:
    """Adds a command that was reached, unless the same launch is there already: from the same place in the text, or from
    a place that this run does not come to, so that this one is started instead of it."""
    new = _as_taken(reached, choices)
    same_place = [one for one in taken if one.reached.place == reached.place]
    if any(one.material == new.material for one in same_place):
        return
    for at, one in enumerate(taken if choices else ()):
        if one.material == new.material and one.launch.engine == new.launch.engine and one.reached.place not in came_to:
            if joins(one.launch) and not joins(new.launch):
                taken[at] = new  # the node that leads stands for those that join it
            return
    model = model_of([word.text for word in new.launch.words])
    for one in same_place if choices else ():
        if one.without_model != new.without_model:
            continue
        if model is not None and model_of([word.text for word in one.launch.words]) is None:
            taken[taken.index(one)] = _as_taken(reached, {})  # the condition only gives the model that was missing
            return
        if "$" in (model or "$"):
            return  # another variable names the model: the same launch otherwise
    taken.append(new)


def _as_taken(reached: Reached, choices: dict[Condition, bool]) -> _Taken:
    started = reached.started
    texts = [item.text for item in started.words]
    variables = {key: item.text for key, item in reached.environment.items()}
    launch = FoundLaunch(started.engine, words_of(started.words), environment_of(reached.environment), files=reached.files)
    if started.image is not None:
        launch.image = Word(started.image.text, Origin("file", "image", *started.image.place))
    launch.role = role_of_words(texts)
    if reached.lost is not None:
        launch.notes.append(f"options from line {reached.lost} on stand behind a comment or a line end and are not part of the command")
    parts = (signature(texts, variables, reached.files), signature(texts, variables, reached.files, with_model=False))
    return _Taken(reached, choices, launch, *parts)


def _tell_when(taken: list[_Taken]) -> None:
    """Conditions are told where they choose among launches."""
    for one in taken if len(taken) > 1 else ():
        held = dict(one.reached.conditions)
        open_here = {**one.choices, **held}
        said = [condition.words(holds) for condition, holds in open_here.items() if not condition.places]
        if not said:
            rivals = [other.choices for other in taken if other.reached.place == one.reached.place and other.choices]
            said = [condition.words(not holds) for choices in rivals for condition, holds in choices.items() if not condition.places]
        one.launch.when = " and ".join(dict.fromkeys(said)) or None
