"""How the ranks agree: a pure function from what one rank has seen to what it does next.

Two rounds over one store. In a round every rank writes a vote; whoever holds all votes, or whose clock ran out, folds
what it has and proposes a ruling; `compare_set` lets the first proposal stand, and **everybody acts on the value read
back**, its proposer too. Round 1 rules `build` or `unfused`, round 2 `fused`, `unfused` or `restart`.

Why it is safe. A round has one ruling. `fused` can only be ruled in round 2 by a rank that read a ready vote of every
rank of this very start (nonces), and a rank votes in round 2 only after it read `build` in round 1; so where round 1 is
`unfused`, nobody can be fused. A proposal of `fused` that meets somebody's expired clock loses or wins as a whole.
A rank that cannot read the store back does not know which proposal won: it never guesses and ends as `restart`.
In round 2 a missing vote means a rank that is stuck in a collective or dead, so the launch cannot serve: `restart`.

Why it is live. A rank past its clock writes its vote (overdue, if it has none), looks once, proposes and reads back:
at most `size` + 2 store operations a round, and each of them can be abandoned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from policy.runtime.fold import differences, ranks_text, spoken
from policy.runtime.plan import FUSED, RESTART, UNFUSED, Outcome, Reason

BUILD = "build"
READY, REFUSED, BROKEN = "ready", "refused", "broken"


@dataclass(frozen=True, slots=True)
class Vote:
    """What one rank says in one round. `verdict`: ready, refused (this rank can serve, unfused) or broken (it cannot serve).

    `facts` must be equal on all ranks of the launch, `group_facts` on the ranks that share a workspace (`members`, in
    order), `node` where the plan wants one machine; `device` must differ between members."""

    rank: int
    nonce: str
    verdict: str = READY
    phase: str = "static"
    fact: str = ""
    text: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    group_facts: tuple[tuple[str, str], ...] = ()
    members: tuple[int, ...] = ()
    device: str = ""


@dataclass(frozen=True, slots=True)
class Ruling:
    """The word of a round with its reason, and the nonces of the votes it rests on."""

    word: str
    reason: Reason
    nonces: tuple[str, ...] = ()
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """All that one rank knows of the current round. `votes[i]` is None until rank i's vote was read; `looked` says that
    the store was read once since the clock ran out; `lost` why the store cannot be trusted any more ("": it can)."""

    rank: int
    nonce: str
    size: int
    round: int = 1
    ballot: Vote | None = None
    voted: bool = False
    votes: tuple[Vote | None, ...] = ()
    expired: bool = False
    looked: bool = False
    ruling: Ruling | None = None
    lost: str = ""

    def next_round(self) -> View:
        """A fresh view of the round that follows."""
        return View(self.rank, self.nonce, self.size, round=self.round + 1, votes=(None,) * self.size)


@dataclass(frozen=True, slots=True)
class PutVote:
    """Write this rank's vote of the round, and read back which one stands."""

    vote: Vote


@dataclass(frozen=True, slots=True)
class Look:
    """Read the ruling, then the missing votes; nothing new: wait a little."""


@dataclass(frozen=True, slots=True)
class Propose:
    """Propose a ruling, and read back which one stands."""

    ruling: Ruling


@dataclass(frozen=True, slots=True)
class Enter:
    """Begin round 2: build and verify, then vote on it."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The outcome is known; nothing more is written."""

    outcome: Outcome


Action = PutVote | Look | Propose | Enter | Finish


def first_view(rank: int, nonce: str, size: int) -> View:
    """The view of a rank that has seen nothing yet. `nonce` is this start's own."""
    return View(rank, nonce, size, votes=(None,) * size)


def decide(view: View) -> Action:
    """What the rank does next. Pure: the same view always gives the same action."""
    if view.lost:
        return _restart(view, "store", view.lost)
    if view.ruling is not None:
        return _obey(view, view.ruling)
    if not view.voted:
        if view.ballot is not None:
            return PutVote(view.ballot)
        return PutVote(overdue(view)) if view.expired else Look()
    if None not in view.votes:
        return Propose(fold(view))
    if view.expired and view.looked:
        return Propose(fold(view))
    return Look()


def _obey(view: View, ruling: Ruling) -> Action:
    if ruling.word in (BUILD, FUSED) and view.nonce not in ruling.nonces:
        return _restart(view, "generation", "the store holds a ruling of another start of these ranks")
    if ruling.word == BUILD:
        return Enter()
    return Finish(Outcome(ruling.word, ruling.reason, details=ruling.details))


def _restart(view: View, fact: str, text: str) -> Finish:
    return Finish(Outcome(RESTART, Reason("vote" if view.round == 1 else "commit", fact, text, view.rank)))


def overdue(view: View) -> Vote:
    """The vote of a rank whose own work has not come back when its clock ran out."""
    if view.round == 1:
        return Vote(view.rank, view.nonce, REFUSED, "static", "deadline", "the static check has not come back by the deadline")
    return Vote(view.rank, view.nonce, BROKEN, "build", "deadline", "creation or verification has not come back by the deadline")


def fold(view: View) -> Ruling:
    """All votes of the round, or those there are when the clock ran out, into one ruling."""
    votes = [vote for vote in view.votes if vote is not None]
    nonces = tuple(vote.nonce for vote in votes)
    against = [vote for vote in votes if vote.verdict != READY]
    missing = tuple(rank for rank, vote in enumerate(view.votes) if vote is None)
    if view.round == 1:
        if against:
            return Ruling(UNFUSED, spoken(against, view.size), nonces)
        if missing:
            return Ruling(UNFUSED, _silent(missing, view), nonces)
        found = differences(votes)
        if found:
            return Ruling(UNFUSED, found[0], nonces, tuple(str(reason) for reason in found[1:]))
        return Ruling(BUILD, Reason("vote", "votes", f"all {view.size} ranks agree"), nonces)
    broken = [vote for vote in against if vote.verdict == BROKEN]
    if broken:
        return Ruling(RESTART, spoken(broken, view.size), nonces)
    if missing:
        return Ruling(RESTART, _silent(missing, view), nonces, tuple(str(spoken([vote], view.size)) for vote in against))
    if against:
        return Ruling(UNFUSED, spoken(against, view.size), nonces)
    return Ruling(FUSED, Reason("commit", "votes", f"all {view.size} ranks built and verified the workspace"), nonces)


def _silent(missing: tuple[int, ...], view: View) -> Reason:
    verb = "has" if len(missing) == 1 else "have"
    if view.round == 1:
        return Reason("vote", "deadline", f"{ranks_text(missing)} {verb} not voted by the deadline (dead, late or without the adapter)", missing[0])
    return Reason("commit", "deadline", f"{ranks_text(missing)} {verb} not reported by the deadline (dead or stuck in creation)", missing[0])


def with_vote(view: View, vote: Vote) -> View:
    """The view after `vote` was read from the store."""
    votes = list(view.votes)
    votes[vote.rank] = vote
    return replace(view, votes=tuple(votes))


__all__ = [
    "BROKEN",
    "BUILD",
    "READY",
    "REFUSED",
    "Action",
    "Enter",
    "Finish",
    "Look",
    "Propose",
    "PutVote",
    "Ruling",
    "View",
    "Vote",
    "decide",
    "first_view",
    "fold",
    "overdue",
    "with_vote",
]
