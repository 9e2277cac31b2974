"""The agreement's store: a clone of the process group's own, so that nobody else waits behind us, used from a thread
that can be abandoned, because a stopped store host blocks even calls that have a time-out.

`compare_set` with an empty expected value is first-writer-wins and returns the value that stands; nothing is ever
inferred from an exception or from silence. Keys carry group, generation and round.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from policy.runtime.abandon import AbandonedError, Servant
from policy.runtime.agreement import Ruling, Vote
from policy.runtime.plan import Reason

PREFIX = "fusion-policy"
Result = TypeVar("Result")


class StoreLostError(RuntimeError):
    """The store cannot be read (any more); the message says which operation failed how."""


class StoreUnusableError(RuntimeError):
    """This group's store cannot carry an agreement at all (no store, no clone); nothing was written to it."""


def group_store(group: Any) -> Any:
    """The store of a process group: `get_group_store` of the group, in older torch `_get_process_group_store`."""
    getter = getattr(group, "get_group_store", None)
    if getter is not None:
        return getter()
    from torch.distributed import distributed_c10d

    older = getattr(distributed_c10d, "_get_process_group_store", None)
    if older is None:
        raise StoreUnusableError("this torch gives no access to the process group's store")
    return older(group)


class AgreementStore:
    """Votes and rulings of one start on a cloned store. `until` is the monotonic time after which a call is given up."""

    def __init__(self, store: Any, group_name: str, generation: int, until: float) -> None:
        if not hasattr(store, "clone"):
            raise StoreUnusableError(f"the store ({type(store).__name__}) cannot be cloned in this torch")
        self._servant = Servant("store")
        self._until = until
        self._path = f"{PREFIX}/{group_name}/{generation}"
        self._store = self._call("clone", store.clone)

    def _call(self, what: str, work: Callable[[], Result]) -> Result:
        try:
            return self._servant.call(work, self._until - time.monotonic())
        except AbandonedError as error:
            raise StoreLostError(f"the store does not answer ({what}: {error})") from None
        except NotImplementedError as error:
            raise StoreUnusableError(f"the store cannot {what}: {error}") from None
        except Exception as error:  # torch raises DistStoreError, DistNetworkError, RuntimeError alike
            raise StoreLostError(f"the store failed ({what}: {_first_line(error)})") from None

    def put_vote(self, round_: int, vote: Vote) -> Vote:
        """Write this rank's vote if none stands; return the one that stands."""
        key = f"{self._path}/{round_}/vote/{vote.rank}"
        return _vote(self._call("vote", lambda: self._store.compare_set(key, "", json.dumps(asdict(vote)))))

    def propose(self, round_: int, ruling: Ruling) -> Ruling:
        """Write the ruling if none stands; return the one that stands."""
        key = f"{self._path}/{round_}/ruling"
        return _ruling(self._call("propose", lambda: self._store.compare_set(key, "", json.dumps(asdict(ruling)))))

    def ruling(self, round_: int) -> Ruling | None:
        """The ruling that stands, None while there is none."""
        key = f"{self._path}/{round_}/ruling"
        text = self._call("look", lambda: self._store.get(key) if self._store.check([key]) else None)
        return None if text is None else _ruling(text)

    def votes(self, round_: int, ranks: list[int], each: bool) -> list[Vote]:
        """The votes of `ranks`: all of them or, unless `each`, none; with `each` every one that is there."""
        keys = [f"{self._path}/{round_}/vote/{rank}" for rank in ranks]

        def read() -> list[Any]:
            if self._store.check(keys):
                return [self._store.get(key) for key in keys]
            return [self._store.get(key) for key in keys if self._store.check([key])] if each else []

        return [_vote(text) for text in self._call("look", read)]

    def farewell(self, rank: int, size: int, seconds: float) -> None:
        """Tell that this rank has read the last ruling. Rank 0, whose process often hosts the store, waits at most `seconds`
        for everybody else to say so, since a host that leaves first takes the ruling with it. Never raises."""
        until = min(self._until, time.monotonic() + seconds)
        try:
            self._call("farewell", lambda: self._store.compare_set(f"{self._path}/read/{rank}", "", "yes"))
            keys = [f"{self._path}/read/{other}" for other in range(size)] if rank == 0 else []
            while keys and time.monotonic() < until and not self._call("farewell", lambda: self._store.check(keys)):
                time.sleep(0.01)
        except (StoreLostError, StoreUnusableError):
            return

    def close(self) -> None:
        """Let go of the thread and, with it, of the cloned connection."""
        self._servant.close()


def _vote(text: bytes | str) -> Vote:
    fields = json.loads(text)
    for name in ("facts", "group_facts"):
        fields[name] = tuple((str(key), str(value)) for key, value in fields[name])
    fields["members"] = tuple(fields["members"])
    return Vote(**fields)


def _ruling(text: bytes | str) -> Ruling:
    fields = json.loads(text)
    return Ruling(fields["word"], Reason(**fields["reason"]), tuple(fields["nonces"]), tuple(fields["details"]))


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"[:300]
