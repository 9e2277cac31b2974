"""Releases that a pack lists and nobody read: gates without an arm, traits without a value, pins that lead nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from policy.pack import Breakpoints, Pack, Product
from policy.records import dataclass
from policy.values import Ordered
from policy.versions import Version, parse


@dataclass(frozen=True, slots=True)
class Gap:
    """What is not known of which releases of a product. `kind` is gate, trait, pin or horizon."""

    product: str
    kind: str
    subject: str
    releases: tuple[str, ...]
    message: str

    def as_json(self) -> dict[str, Any]:
        """The stable keys of a gap."""
        return {"product": self.product, "kind": self.kind, "subject": self.subject, "releases": list(self.releases), "message": self.message}


def gaps(pack: Pack) -> Iterator[Gap]:
    """Every release that something is not known of."""
    for product in pack.products.values():
        for gate in product.gates.values():
            unread = [release for release in product.releases if not _read(gate.arms, release)]
            if unread:
                yield _gap(product, "gate", gate.id, unread, "no arm of the gate was read for")
            beyond = [release for release in product.releases if release > gate.through]
            if beyond:
                yield _gap(product, "horizon", gate.id, beyond, "the gate was read up to an earlier release than")
        for trait in product.traits.values():
            unknown = [release for release in product.releases if _value(trait.breakpoints, release) is None]
            if unknown:
                yield _gap(product, "trait", trait.fact, unknown, "the trait is not known for")
        yield from _pins(pack, product)


def _pins(pack: Pack, product: Product) -> Iterator[Gap]:
    unpinned = [release for release in product.releases if product.pins and release not in product.pins]
    if unpinned:
        yield _gap(product, "pin", product.name, unpinned, "no requirements are recorded of")
    libraries = {one.package: one for one in pack.products.values() if one.role != "engine" and one.releases}
    for release, wanted in sorted(product.pins.items()):
        if release not in product.releases and product.releases:
            yield _gap(product, "pin", product.name, [release], "requirements are recorded of a release that is not listed:")
        for package, requirement in wanted.items():
            library = libraries.get(package)
            version = parse(requirement.split(";")[0].strip().removeprefix("==")) if requirement.startswith("==") else None
            if library is not None and version is not None and version not in library.releases and version >= library.releases[0]:
                message = f"{product.title} {release} requires {package} {version}, which is not among the releases of {library.title}"
                yield Gap(product.name, "pin", package, (str(release),), message)


def _gap(product: Product, kind: str, subject: str, releases: list[Version], message: str) -> Gap:
    shown = tuple(str(release) for release in releases)
    return Gap(product.name, kind, subject, shown, f"{message} {product.title} {', '.join(shown)}")


def _value(rows: Breakpoints, release: Version) -> object:
    return next((value for interval, value in rows.met(Ordered.exactly(release))), None)


def _read(rows: Breakpoints, release: Version) -> bool:
    arm = _value(rows, release)
    return arm is not None and getattr(arm, "known", True)
