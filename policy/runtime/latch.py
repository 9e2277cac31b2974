"""A restart must not loop: what made a start end as `restart`, or die while building, keeps the next start of the same
decision unfused. One small file a rank, in the folder named by FUSION_POLICY_STATE."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import IO


def state_folder() -> Path:
    """FUSION_POLICY_STATE (a volume that outlives a container), else XDG_STATE_HOME, else a folder of this user in the temporary one."""
    given = os.environ.get("FUSION_POLICY_STATE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME")
    return Path(base) / "fusion-policy" if base else Path(tempfile.gettempdir()) / f"fusion-policy-{os.getuid()}"


class Latch:
    """The latch of one start of one decision. Files that cannot be written are no error: the latch is a convenience, never a vote."""

    def __init__(self, digest: str, rank: int, nonce: str, folder: Path | None = None) -> None:
        name = hashlib.sha256(digest.encode()).hexdigest()[:16]
        self._folder = folder or state_folder()
        self._pattern = f"latch-{name}-*.json"
        self.file = self._folder / f"latch-{name}-{rank}-{nonce}.json"
        self._lock: IO[str] | None = None

    def reason(self) -> str | None:
        """Why an earlier start of this decision must not be repeated; None when nothing is latched.

        A file that its writer still holds open belongs to a start that is building right now, not to one that died."""
        try:
            files = sorted(self._folder.glob(self._pattern))
        except OSError:
            return None
        for file in files:
            with contextlib.suppress(OSError, ValueError, KeyError), file.open(encoding="utf-8") as handle:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                noted = json.load(handle)
                when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(noted["time"]))
                return f"an earlier start with this decision ended at {when}: {noted['reason']}; remove {file} to try again"
        return None

    def arm(self) -> None:
        """Before the build: should this process be killed in it, the file stays and its lock goes.

        The file is locked before it has its name: another replica of the same decision may look at any moment."""
        self._write("it died while building the workspace", hold=True)

    def disarm(self) -> None:
        """The build came to an end that needs no latch."""
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)
        self._release()

    def set(self, reason: str) -> None:
        """This start ends as `restart`."""
        self._write(reason)
        self._release()

    def _write(self, reason: str, hold: bool = False) -> None:
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = self.file.with_suffix(".tmp")
            temporary.write_text(json.dumps({"reason": reason, "time": time.time()}), encoding="utf-8")
            if hold:
                self._lock = temporary.open(encoding="utf-8")
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            temporary.replace(self.file)

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
