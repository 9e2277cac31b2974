"""Every interleaving of a few ranks that run `agreement.decide` over one store, with faults: safety and liveness, by exhaustion.

The store is atomic per operation, as the real one; everything else is left to an adversary: the order of the ranks'
operations (a look reads key by key), when a clock runs out (a late rank is one whose steps come late), what a rank's own
work says or whether it ever comes back, a rank that dies, a connection that breaks before or after an operation took
effect, a store host that dies for everybody. A purely local step follows the operation that enables it at once: it
commutes with everything the other ranks do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from policy.runtime.agreement import (
    BROKEN,
    READY,
    REFUSED,
    Action,
    Enter,
    Finish,
    Look,
    Propose,
    PutVote,
    Ruling,
    View,
    Vote,
    decide,
    first_view,
    with_vote,
)
from policy.runtime.plan import FUSED, UNFUSED, Reason

DEAD = "dead"
KINDS = ("crash", "connection", "host")
_NO_REASON = Reason("", "", "")
Transition = Callable[[View], Action]
Store = tuple[tuple[Vote | None, ...], tuple[Vote | None, ...], Ruling | None, Ruling | None]
State = tuple[int, ...]  # one local state a rank, then the store, the host (1: alive) and the faults left


@dataclass(frozen=True, slots=True)
class Local:
    """One rank: its view, where it stands in a look (0: the ruling, i + 1: rank i's vote); or how it ended, and whether
    it ended without being able to read the store."""

    view: View | None
    cursor: int = 0
    ended: str = ""
    blind: bool = False


@dataclass(slots=True)
class Exploration:
    """What was seen: counts, how launches end, the longest run of store operations of a rank past its clock in a round
    (-1: without bound), and every violated property with one state that shows it."""

    states: int = 0
    transitions: int = 0
    endings: dict[tuple[str, ...], int] = field(default_factory=dict)
    violations: dict[str, tuple[Local, ...]] = field(default_factory=dict)
    most_operations: int = 0

    def words(self) -> set[str]:
        """All ways in which a rank ended."""
        return {word for ending in self.endings for word in ending}


class Explorer:
    """Visits every reachable state of `size` ranks with at most `faults` faults of the given `kinds`.

    Properties: `mixture` (fused and unfused in one launch), `disagreement` (two ranks that both read the store end
    differently), `guess` (fused although some rank has not voted ready in both rounds), `unbounded` (a rank past its
    clock that need not come to an end). `run` raises MemoryError past `limit` states."""

    def __init__(
        self,
        size: int = 3,
        faults: int = 1,
        kinds: tuple[str, ...] = KINDS,
        transition: Transition = decide,
        *,
        work: tuple[tuple[str, ...], tuple[str, ...]] = ((READY, REFUSED), (READY, REFUSED, BROKEN)),
        limit: int = 20_000_000,
        trust_own_proposal: bool = False,
    ) -> None:
        self.size, self.faults, self.kinds, self.transition, self.work, self.limit = size, faults, kinds, transition, work, limit
        self.trust_own_proposal = trust_own_proposal  # a broken driver, for the tests of the explorer itself
        self.locals: list[Local] = []
        self.local_ids: dict[Local, int] = {}
        self.stores: list[Store] = []
        self.store_ids: dict[Store, int] = {}
        self.actions: dict[int, Action | None] = {}
        self.free: dict[tuple[int, int], tuple[int, ...]] = {}
        self.lost: dict[int, int] = {}
        self.operated: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.dead = self._local(Local(None, ended=DEAD))
        self.next_operations: dict[int, set[int]] = {}

    def run(self) -> Exploration:
        """Visit everything that can be reached."""
        result = Exploration()
        nothing: tuple[Vote | None, ...] = (None,) * self.size
        store = self._store((nothing, nothing, None, None))
        start = (*tuple(self._local(Local(first_view(rank, f"n{rank}", self.size))) for rank in range(self.size)), store, 1, self.faults)
        seen, frontier = {start}, [start]
        while frontier:
            state = frontier.pop()
            result.states += 1
            for successor in self._successors(state):
                result.transitions += 1
                if successor not in seen:
                    seen.add(successor)
                    self._check(successor, result)
                    frontier.append(successor)
            if len(seen) > self.limit:
                raise MemoryError(f"more than {self.limit} states; explore fewer ranks or faults")
        result.most_operations = self._longest_run()
        if result.most_operations < 0:
            result.violations.setdefault("unbounded", ())
        return result

    # -- one state
    def _check(self, state: State, result: Exploration) -> None:
        ranks = [self.locals[each] for each in state[: self.size]]
        ended = [rank for rank in ranks if rank.ended and rank.ended != DEAD]
        words = {rank.ended for rank in ended}
        if FUSED in words and UNFUSED in words:
            result.violations.setdefault("mixture", tuple(ranks))
        if len({rank.ended for rank in ended if not rank.blind}) > 1:
            result.violations.setdefault("disagreement", tuple(ranks))
        if FUSED in words:
            first, second, _, _ = self.stores[state[self.size]]
            if any(vote is None or vote.verdict != READY for vote in first + second):
                result.violations.setdefault("guess", tuple(ranks))
        if all(rank.ended for rank in ranks):
            ending = tuple(sorted(rank.ended for rank in ranks))
            result.endings[ending] = result.endings.get(ending, 0) + 1

    def _successors(self, state: State) -> Iterator[State]:
        size, store, host, faults = self.size, state[-3], state[-2], state[-1]
        if faults and host and "host" in self.kinds:
            yield (*state[:size], store, 0, faults - 1)
        for index in range(size):
            local = state[index]
            if self.locals[local].ended:
                continue
            before, after = state[:index], state[index + 1 : size]
            for free in self._free(local, index):
                yield (*before, free, *after, *state[size:])
            if faults and "crash" in self.kinds:
                yield (*before, self.dead, *after, store, host, faults - 1)
            if not host:
                yield (*before, self._lost(local), *after, *state[size:])
                continue
            done, changed = self._operate(local, store, index)
            yield (*before, done, *after, changed, host, faults)
            if faults and "connection" in self.kinds:
                yield (*before, self._lost(local), *after, store, host, faults - 1)
                if changed != store:  # it took effect, the answer was lost
                    yield (*before, self._lost(local), *after, changed, host, faults - 1)
            if faults and "crash" in self.kinds and changed != store:
                yield (*before, self.dead, *after, changed, host, faults - 1)

    # -- one rank, memoised by its local state
    def _free(self, number: int, index: int) -> tuple[int, ...]:
        """Steps that touch nothing shared: the clock runs out, the rank's own work comes back."""
        key = (number, index)
        if key not in self.free:
            local = self.locals[number]
            view = local.view
            assert view is not None
            steps = []
            if not view.expired:
                steps.append(replace(local, view=replace(view, expired=True, looked=False), cursor=0))
            if view.ballot is None and not view.voted:
                steps += [replace(local, view=replace(view, ballot=Vote(index, view.nonce, verdict)), cursor=0) for verdict in self.work[view.round - 1]]
            self.free[key] = tuple(self._settled(step) for step in steps)
        return self.free[key]

    def _lost(self, number: int) -> int:
        if number not in self.lost:
            view = self.locals[number].view
            assert view is not None
            self.lost[number] = self._settled(Local(replace(view, lost="connection")))
        return self.lost[number]

    def _operate(self, number: int, store: int, index: int) -> tuple[int, int]:
        """One atomic store operation of one rank: its next local state and the store after it."""
        key = (number, store, index)
        if key not in self.operated:
            done, changed = self._operation(self.locals[number], self.stores[store], index)
            result = self._settled(done)
            self.operated[key] = (result, self._store(changed))
            self.next_operations.setdefault(number, set()).add(result)
        return self.operated[key]

    def _operation(self, local: Local, store: Store, index: int) -> tuple[Local, Store]:
        view = local.view
        assert view is not None
        turn, action = view.round - 1, self.transition(view)
        votes = store[0] if turn == 0 else store[1]
        ruling = store[2] if turn == 0 else store[3]
        if isinstance(action, PutVote):
            if votes[index] is None:
                votes = (*votes[:index], replace(action.vote, text="", fact="", phase=""), *votes[index + 1 :])
            standing_vote = votes[index]
            assert standing_vote is not None
            return Local(replace(with_vote(view, standing_vote), ballot=None, voted=True)), _put(store, turn, votes)
        if isinstance(action, Propose):
            proposal = replace(action.ruling, reason=_NO_REASON, details=())
            standing = ruling or proposal
            return Local(replace(view, ruling=proposal if self.trust_own_proposal else standing)), _put(store, turn + 2, standing)
        assert isinstance(action, Look)
        if local.cursor == 0:
            if ruling is not None:
                return Local(replace(view, ruling=ruling)), store
            return (replace(local, cursor=_next_missing(view, 0)) if view.voted else local), store
        if not view.expired:  # the driver asks for all missing votes at once and reads them only if all are there
            return Local(replace(view, votes=votes) if None not in votes else view), store
        vote = votes[local.cursor - 1]
        following = _next_missing(view, local.cursor)
        if vote is not None:
            view = with_vote(view, vote)
        return (Local(view, cursor=following) if following else Local(replace(view, looked=True))), store

    def _settled(self, local: Local) -> int:
        """Follow local actions until a store operation is due or the rank has ended."""
        while local.view is not None and local.cursor == 0:
            action = self.transition(local.view)
            if isinstance(action, Finish):
                local = Local(None, ended=action.outcome.word, blind=bool(local.view.lost))
            elif isinstance(action, Enter):
                assert local.view is not None
                local = Local(local.view.next_round())
            else:
                break
        return self._local(local)

    def _local(self, local: Local) -> int:
        if local not in self.local_ids:
            self.local_ids[local] = len(self.locals)
            self.locals.append(local)
        return self.local_ids[local]

    def _store(self, store: Store) -> int:
        if store not in self.store_ids:
            self.store_ids[store] = len(self.stores)
            self.stores.append(store)
        return self.store_ids[store]

    # -- liveness
    def _longest_run(self) -> int:
        """Operations a rank past its clock can need until it ends or enters the next round; -1 if there is a cycle."""
        length: dict[int, int] = {}
        open_: set[int] = set()

        def measure(number: int) -> int:
            view = self.locals[number].view
            if view is None or not view.expired:
                return 0
            if number in length:
                return length[number]
            if number in open_:
                return -1
            open_.add(number)
            below = [measure(each) for each in self.next_operations.get(number, ())]
            open_.discard(number)
            length[number] = -1 if -1 in below else 1 + max(below, default=0)
            return length[number]

        lengths = [measure(number) for number in range(len(self.locals))]
        return -1 if -1 in lengths else max(lengths)


def _next_missing(view: View, after: int) -> int:
    """The cursor of the next vote that this rank has not read; 0 when there is none."""
    return next((rank + 1 for rank in range(after, view.size) if view.votes[rank] is None), 0)


def _put(store: Store, place: int, value: object) -> Store:
    return (*store[:place], value, *store[place + 1 :])  # type: ignore[return-value]
