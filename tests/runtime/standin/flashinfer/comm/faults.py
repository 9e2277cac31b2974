"""Misbehaviour on order: STANDIN_FAULT={"at": "load|create|created|call", "kind": "exception|never|frozen|delay|wrong", "seconds": 1.0}."""

import ctypes
import json
import os
import time


def fault(at):
    """Carry out the fault ordered for this place; returns True where numbers shall be wrong."""
    ordered = json.loads(os.environ.get("STANDIN_FAULT", "{}"))
    if ordered.get("at") != at:
        return False
    kind = ordered["kind"]
    if kind == "exception":
        raise RuntimeError(f"ordered failure at {at}")
    if kind == "memory":
        raise MemoryError("CUDA out of memory (stand-in)")
    if kind == "never":
        time.sleep(3600)
    if kind == "frozen":  # blocks while it holds the interpreter, as a C++ call without a released lock does
        ctypes.PyDLL(None).sleep(3600)
    if kind == "delay":
        time.sleep(ordered["seconds"])
    return kind == "wrong"
