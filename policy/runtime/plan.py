"""The nouns of the runtime: what to build, for whom, by when, and what came of it. Imports neither torch nor pydantic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: The fusion whose workspaces the adapter builds.
FUSION = "allreduce_rms"
HOW_TO_STORE = f"policy explain {FUSION} --format json"
FUSED, UNFUSED, RESTART = "fused", "unfused", "restart"
OUTCOMES = (FUSED, UNFUSED, RESTART)
#: What a process that must be started again exits with (EX_TEMPFAIL: try again later).
EXIT_RESTART = 75
ITEM_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


class RuntimeRequestError(ValueError):
    """What the caller asked of the runtime makes no sense; the message says what to change."""


@dataclass(frozen=True, slots=True)
class WorkspacePlan:
    """One concrete workspace: `library` by its import name, `backend` as the library calls it, `scope` what the call
    is meant to reach (`world`, or the group it is built for), `passes` the scoping arguments that are given where the
    signature takes them: the adapter gives both, since one of them alone is wrong in some release."""

    library: str = "flashinfer"
    backend: str = "trtllm"
    scope: str = "tensor_parallel_group"
    passes: tuple[str, ...] = ("comm_backend", "group")


@dataclass(frozen=True, slots=True)
class Decision:
    """What the runtime needs of a decision: its digest, its state (`on`, `off`, `undetermined`) and the chosen plan.

    `facts` are those it rests on that all nodes must have in common (empty: the digests are compared, as they are of one
    decision that was stored for all); `max_bytes` the largest call that it allows (None: any)."""

    digest: str
    state: str = "on"
    plan: WorkspacePlan | None = field(default_factory=WorkspacePlan)
    reason: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    max_bytes: int | None = None

    @classmethod
    def from_json(cls, document: Any) -> Decision:
        """Read a stored decision (`state`, `digest`, `chosen_plan {library, backend, scope}`), or what `policy explain
        --format json` prints, in which it is the one about `FUSION`.

        Raises RuntimeRequestError when one of them is missing."""
        if isinstance(document, list) and len(document) == 1:
            document = document[0]
        if isinstance(document, Mapping) and isinstance(document.get("decisions"), list):
            about = [one for one in document["decisions"] if isinstance(one, Mapping) and one.get("fusion") == FUSION]
            if not about:
                raise RuntimeRequestError(f"the answer holds no decision about {FUSION}; store it with `{HOW_TO_STORE}`")
            document = about[0]
        if not isinstance(document, Mapping):
            raise RuntimeRequestError(f"this is no stored decision about one launch; store it with `{HOW_TO_STORE}`")
        missing = [name for name in ("state", "digest") if not document.get(name)]
        if missing:
            raise RuntimeRequestError(f"the decision has no `{missing[0]}`; store it with `{HOW_TO_STORE}`")
        chosen = document.get("chosen_plan") or None
        plan = None
        if chosen:
            plan = WorkspacePlan(
                library=str(chosen.get("library", "flashinfer")),
                backend=str(chosen.get("backend", "trtllm")),
                scope=str(chosen.get("scope", "tensor_parallel_group")),
            )
        reason = document.get("reason") or ""
        title = (reason.get("title") or reason.get("id") or "") if isinstance(reason, Mapping) else reason
        unknown = document.get("unknown_facts")
        if document["state"] == "undetermined" and unknown:
            title = f"the decision is undetermined; not known: {', '.join(map(str, unknown))}"
        facts, bound = document.get("facts") or {}, document.get("max_bytes")
        return cls(
            digest=str(document["digest"]),
            state=str(document["state"]),
            plan=plan,
            reason=str(title),
            facts=tuple((str(name), str(value)) for name, value in facts.items()),
            max_bytes=None if bound is None else int(bound),
        )


@dataclass(frozen=True, slots=True)
class Consumer:
    """One user of the workspace (target, draft, quantised patterns, standalone all-reduce).

    `hidden_size` in elements, `max_tokens` in tokens a call, `dtype` of the activations, `norm_weight_dtype` of the
    RMSNorm weight (None: no norm), `one_shot` True, False or None (the library chooses by size)."""

    name: str = "target"
    hidden_size: int = 0
    max_tokens: int = 0
    dtype: str = "bfloat16"
    norm_weight_dtype: str | None = "bfloat16"
    one_shot: bool | None = None
    launch_with_pdl: bool = False
    fp32_accumulation: bool = True
    rms_eps: float = 1e-6


@dataclass(frozen=True, slots=True)
class Shape:
    """The workspace that serves all consumers: tokens x hidden elements of `dtype`."""

    max_tokens: int
    hidden_size: int
    dtype: str

    def bytes_needed(self, world_size: int) -> int:
        """Device memory of one rank in bytes: one communication buffer and three of the low-latency protocol."""
        return 4 * world_size * self.max_tokens * self.hidden_size * ITEM_BYTES.get(self.dtype, 4)


def common_shape(consumers: Sequence[Consumer]) -> Shape:
    """The maximum over all consumers. Raises RuntimeRequestError for none, an empty shape or a mix of 16 and 32 bit."""
    if not consumers:
        raise RuntimeRequestError("no consumer of the workspace is given; name at least the target model's shape")
    for consumer in consumers:
        if consumer.hidden_size <= 0 or consumer.max_tokens <= 0:
            given = f"hidden_size {consumer.hidden_size} and max_tokens {consumer.max_tokens}"
            raise RuntimeRequestError(f"consumer `{consumer.name}` has {given}; both must be positive")
    wide = {consumer.dtype for consumer in consumers if consumer.dtype == "float32"}
    narrow = {consumer.dtype for consumer in consumers if consumer.dtype != "float32"}
    if wide and narrow:
        names = ", ".join(f"`{consumer.name}` {consumer.dtype}" for consumer in consumers)
        raise RuntimeRequestError(f"one workspace holds either float32 or 16-bit sums, not both: {names}; leave one of them unfused")
    return Shape(
        max_tokens=max(consumer.max_tokens for consumer in consumers),
        hidden_size=max(consumer.hidden_size for consumer in consumers),
        dtype=consumers[0].dtype,
    )


@dataclass(frozen=True, slots=True)
class Reason:
    """Why: the rank that gave the reason (None: the launch as a whole), the phase, the fact, and one clause for a person."""

    phase: str
    fact: str
    text: str
    rank: int | None = None

    def __str__(self) -> str:
        who = "" if self.rank is None else f"rank {self.rank}, "
        return f"{who}{self.phase} ({self.fact}): {self.text}"

    def to_json(self) -> dict[str, Any]:
        """The stable keys of a reason."""
        return {"phase": self.phase, "fact": self.fact, "text": self.text, "rank": self.rank}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Reason:
        """Read back what `to_json` wrote."""
        rank = document["rank"]
        return cls(str(document["phase"]), str(document["fact"]), str(document["text"]), None if rank is None else int(rank))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The word for the whole launch (`fused`, `unfused`, `restart`), its one reason, and the seconds each phase took here."""

    word: str
    reason: Reason
    seconds: tuple[tuple[str, float], ...] = ()
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.word} because {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """The stable keys of an outcome."""
        return {"outcome": self.word, "reason": self.reason.to_json(), "seconds": dict(self.seconds), "details": list(self.details)}


@dataclass(frozen=True, slots=True)
class Deadline:
    """Seconds from the call: all votes in by `agree`, everything built, verified and committed by `total`.
    Every rank has an outcome by `total` + `grace` at the latest."""

    total: float = 120.0
    agree: float | None = None
    grace: float = 3.0

    def __post_init__(self) -> None:
        if self.total <= 0 or (self.agree is not None and not 0 < self.agree <= self.total):
            raise RuntimeRequestError(f"a deadline of {self.total} s with votes in by {self.agree} s makes no sense; give 0 < agree <= total")

    @property
    def agree_by(self) -> float:
        """Seconds from the call by which the votes must be in; half of the whole where not given."""
        return self.agree if self.agree is not None else self.total / 2
