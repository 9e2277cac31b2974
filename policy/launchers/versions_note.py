"""Which release's options a command is read with when the engine's version is unknown or has no catalogue of its own."""

from __future__ import annotations

from collections.abc import Callable

from policy.launchers.catalogue import Catalogue, choose, known, read_catalogue
from policy.launchers.found import RELEASE_KINDS, LaunchNotice
from policy.launchers.settings import Settings
from policy.origin import Origin


def best_of(engine: str, version: str | None, read: Callable[[Catalogue], Settings]) -> Settings:
    """The command read with the version's own catalogue; else with the nearest one, and where that refuses something,
    with the one on the other side too: the release lies between them, so what either takes is not called an error."""
    names = choose(engine, version)
    settings = read(read_catalogue(engine, names[0]))
    if any(notice.kind == "not-an-engine-command" for notice in settings.errors):
        return settings
    if settings.errors and len(names) > 1:
        other = read(read_catalogue(engine, names[1]))
        if _weight(other) < _weight(settings):
            settings = other
    notice = _notice(engine, version, settings.catalogue_version)
    if notice is not None:
        settings.notices.insert(0, notice)
    return settings


def _weight(settings: Settings) -> tuple[int, int]:
    """How badly a release fits: options that it does not know, then everything else that it refuses."""
    return sum(error.kind in RELEASE_KINDS for error in settings.errors), len(settings.errors)


def _notice(engine: str, version: str | None, used: str) -> LaunchNotice | None:
    if known(version) is None:
        said = "is not given" if version is None else f"`{version}` says no release"
        text = f"the version of {engine} {said}: the options of {used} are assumed"
        return LaunchNotice("version-assumed", text, Origin("assumed", detail=f"{engine} {used}"), "give the version")
    if known(version) != known(used):
        text = f"the options of {engine} {version} are not listed: those of {used} are used"
        return LaunchNotice("nearest-catalogue", text, Origin("assumed", detail=f"{engine} {used}"), "check options that are new or gone between the two")
    return None
