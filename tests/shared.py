"""Where the optional shared test data lies: `FUSION_POLICY_SHARED`, else `shared` beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

SHARED = Path(os.environ.get("FUSION_POLICY_SHARED") or Path(__file__).resolve().parents[2] / "shared")


def shared_path(name: str) -> Path | None:
    """The file or folder `name` below the shared data, or None where it is absent."""
    path = SHARED / name
    return path if path.exists() else None
