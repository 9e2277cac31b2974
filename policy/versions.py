"""PEP 440 versions as one total order, and the kinds of version that need care.

The order is that of `packaging.version.Version` with the local part left out (0.6.11+cu130 equals 0.6.11). A
specifier's own containment test is not used: it is no order, and it changed between releases of packaging.
A breakpoint X, `>=X` and `<X` all meet at X.dev0, so they are complements and pre-releases belong to the line
that they lead to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from packaging.version import InvalidVersion, Version

__all__ = ["Version", "is_known_local", "is_placeholder", "line_start", "neighbours", "parse", "shown", "without_local"]

#: Local parts that say how a wheel was built, not what is in it.
_KNOWN_LOCAL = re.compile(r"(cu\d+|cpu|rocm[\d.]*|precompiled|xpu|cxx11\.?abi\w*|ubuntu[\d.]*|empty)(\.(cu\d+|cpu|rocm[\d.]*|cxx11abi\w*))*")
_PLACEHOLDERS = {"0.0.0", "0", "0.0"}


@lru_cache(maxsize=4096)
def parse(text: str) -> Version | None:
    """The version, its local part kept; None where `text` is not a PEP 440 version."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def without_local(version: Version) -> Version:
    """The version as it is ordered: without its local part."""
    return version if version.local is None else _public(str(version))


@lru_cache(maxsize=1024)
def _public(text: str) -> Version:
    return Version(Version(text).public)


def is_placeholder(text: str) -> bool:
    """True for what build systems write when they know no version (`0.0.0+unknown`, `dev`), and for unparsable text."""
    version = parse(text)
    return version is None or (version.public in _PLACEHOLDERS and not version.is_prerelease) or version.local in ("unknown", "dirty")


def is_known_local(local: str) -> bool:
    """True where a local part only names the build (`cu130`), so that nothing else is to be expected in the package."""
    return _KNOWN_LOCAL.fullmatch(local) is not None


def line_start(version: Version) -> Version:
    """The point where the line of `version` begins: X.dev0 for X, and the version itself for a development build."""
    return version if version.dev is not None else _first_build(str(version))


@lru_cache(maxsize=4096)
def _first_build(text: str) -> Version:
    # by its text, because 0.6 and 0.6.0 are equal and each is to be shown as it was written
    return Version(f"{text}.dev0")


def shown(point: Version) -> str:
    """A bound as one writes it in a rule: X for X.dev0."""
    text = str(point)
    return text[: -len(".dev0")] if text.endswith(".dev0") else text


def neighbours(version: Version, releases: Sequence[Version]) -> tuple[Version | None, Version | None]:
    """The final releases on both sides of a development build: a build numbered X.devN was cut somewhere between the
    last final release below X and the next final release above X. `releases` is sorted."""
    base = Version(version.base_version)
    finals = [release for release in releases if not release.is_prerelease and not release.is_postrelease]
    below = [release for release in finals if release < base]
    above = [release for release in finals if release > base]
    return (below[-1] if below else None, above[0] if above else None)
