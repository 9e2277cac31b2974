"""Where a value comes from: one noun, `Origin`, and the order in which origins win."""

from __future__ import annotations

from policy.records import dataclass

#: Kinds of origin, strongest first. A value from a stronger origin replaces a weaker one.
KINDS = (
    "set",  # --set FACT=VALUE
    "argument",  # a word of the launch command
    "file",  # a configuration file, a manifest, a log
    "environment",  # an environment variable of the launch
    "facts",  # --facts FILE, a replayed report
    "probe",  # read from the machine at hand
    "model_config",  # the model's config.json
    "device_profile",  # a named device profile of the pack
    "image",  # inferred from an image tag
    "engine_pin",  # what the named engine release requires
    "engine_default",  # what the engine uses when nothing is given
    "assumed",  # the fact's own `assume`
    "presumed",  # the fact's own `presume`, provisional answers only
    "derived",  # computed from other facts
    "unknown",
)
RANK = {kind: position for position, kind in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class Origin:
    """One origin. `detail` is what a person reads after the kind (`-tp 2`, `VLLM_DP_SIZE`, a package's metadata);
    `argument` counts the words of the command from 1 for the program's own name; `line` and `column` count from 1."""

    kind: str
    detail: str = ""
    file: str | None = None
    line: int | None = None
    column: int | None = None
    argument: int | None = None

    def __str__(self) -> str:
        place = ""
        if self.file is not None:
            place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        if self.kind == "argument" and self.argument is not None:
            words = f"`{self.detail}` argument {self.argument}" if self.detail else f"argument {self.argument}"
            return f"{words} ({place})" if place else words
        if place:
            return f"{place} (`{self.detail}`)" if self.detail else place
        name = self.kind.replace("_", " ")
        return f"{name}: {self.detail}" if self.detail else name

    @property
    def rank(self) -> int:
        """Position in `KINDS`; the smaller one wins."""
        return RANK[self.kind]
