"""The variables by which a launch has this package's plug-in act, and what they say."""

from __future__ import annotations

from collections.abc import Mapping

#: advise: say what is decided; enforce: change the engine's configuration; fail: start only where nothing has to change.
MODES = ("advise", "enforce", "fail")
MODE_VARIABLE = "FUSION_POLICY_MODE"
#: The file in which plug-in and ranks report to `policy exec`.
REPORT_VARIABLE = "FUSION_POLICY_REPORT"
#: Who builds the workspaces: `engine`, or `adapter`.
BUILDER_VARIABLE = "FUSION_POLICY_BUILDER"


def mode_word(variables: Mapping[str, str]) -> str:
    """The word for the mode as it is written; `enforce` where only the adapter is asked for, an empty text where the
    plug-in is to do nothing."""
    word = variables.get(MODE_VARIABLE, "").strip().lower()
    if not word and variables.get(BUILDER_VARIABLE) == "adapter":
        return "enforce"
    return "" if word in ("off", "0") else word


def adapter_builds(variables: Mapping[str, str]) -> bool:
    """Whether the adapter builds the workspaces: it is asked for, and the plug-in does more than advise."""
    return variables.get(BUILDER_VARIABLE) == "adapter" and mode_word(variables) in ("enforce", "fail")
