"""The command `policy`: parses its words, calls one command, prints errors without a traceback."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

#: Command -> (module, what it does).
COMMANDS = {
    "explain": ("explain", "what is decided for a launch, and why"),
    "facts": ("facts", "every fact of a launch, with its origin, and what is not known"),
    "resolve": ("resolve", "the launch with what is decided written into it: command, diff or patch"),
    "exec": ("exec", "decide, log, and run the launch with what is decided written into it"),
    "audit": ("audit", "many launches at once: what is dangerous, what is missed"),
    "why-not": ("why_not", "the smallest changes that would turn a fusion on"),
    "upgrade": ("upgrade", "what another release changes for your launches"),
    "diff": ("diff", "what changes, for which launches, between two packs, revisions or releases"),
    "prove": ("prove", "invariants proved for all launches, or refuted by one"),
    "doctor": ("doctor", "is the plug-in loaded, do versions match, what is not known here"),
    "preflight": ("preflight", "agree, build, verify and time on the GPUs at hand, in throw-away processes"),
    "diagnose": ("diagnose", "which hazards a log speaks for, and what would confirm each"),
    "check": ("check", "load a pack, look for mistakes in it, and run the cases of its rules"),
    "rule": ("rule", "one rule as a page"),
    "docs": ("docs", "write the pages about a pack"),
    "completion": ("completion", "words for the shell to complete"),
    "schema": ("schema", "write the JSON Schemas of the pack's files and of a launch"),
}
#: What has to be installed beside this package, by the name it is imported under.
REQUIRED = {"pydantic": "pydantic", "yaml": "pyyaml", "packaging": "packaging"}
EPILOG = """\
exit codes: 0 done; 1 a finding named by --fail-on, a required fusion that is off, or a pack with mistakes;
2 bad usage or input; 3 a required fusion that is undetermined. "Off" is not an error.
"""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal; argparse asks for it with every option, and by a module that unpacks archives."""

    def __init__(self, prog: str) -> None:
        try:
            width = int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size(1).columns or 80
        except (OSError, ValueError):
            width = 80
        super().__init__(prog, width=max(width, 20) - 2)


def parser_for(name: str | None = None) -> argparse.ArgumentParser:
    """The parser; only the named command's module is imported (all of them where none is named)."""
    parser = argparse.ArgumentParser(
        prog="policy",
        description="Decide which kernel fusions a launch may use, and say why.",
        epilog=EPILOG,
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="store_true", help="print the version and the pack's digest")
    subparsers = parser.add_subparsers(dest="name", metavar="COMMAND", prog="policy")
    for command, (module, help) in COMMANDS.items():
        if name is None or name == command:
            loaded = import_module(f"policy.commands.{module}")
            child = subparsers.add_parser(
                command,
                help=help,
                description=f"{help[:1].upper()}{help[1:]}.",
                epilog=f"example: {loaded.EXAMPLE}",
                formatter_class=_Help,
            )
            loaded.add(child)
        else:
            subparsers.add_parser(command, help=help, add_help=False)
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # it was closed by whoever started this; the number that this takes is not handed to a command
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # a name that the terminal cannot show is shown escaped, not as a traceback
            stream.reconfigure(errors="backslashreplace")
    # a short process with many small objects: collecting them would cost more than they hold
    gc.disable()
    given = list(sys.argv[1:] if words is None else words)
    launch: list[str] = []
    if "--" in given:
        cut = given.index("--")
        given, launch = given[:cut], given[cut + 1 :]
    first = next((word for word in given if not word.startswith("-")), None)
    if first is not None and first not in COMMANDS:
        from policy.launchers.read import launch_in
        from policy.pack import did_you_mean

        if launch_in([first]) is not None:
            return _fail("a command comes first, and the launch after `--`", f"policy explain -- {' '.join(given)}")
        return _fail(f"`{first}` is no command", did_you_mean(first, COMMANDS) or f"commands: {', '.join(COMMANDS)}")
    from policy.problems import PolicyError

    parser = parser_for(first or "-")
    options, rest = parser.parse_known_args(given)
    # words may stand after options too: argparse takes only the first run of them
    left = [word for word in rest if word == "-" or not word.startswith("-")]
    taken = next((name for name in ("words", "files", "logs") if hasattr(options, name)), None)
    if len(left) < len(rest) or (rest and taken is None):
        return _unknown(first, parser, rest, given)
    if taken is not None:
        setattr(options, taken, [*getattr(options, taken), *left])
    if launch and not hasattr(options, "assignments"):
        return _fail(f"`policy {first}` takes no launch", "leave out what follows `--`")
    options.launch = launch
    try:
        if options.version:
            ending = _version()
        elif options.name is None:
            parser.print_help()
            ending = 0
        else:
            ending = int(import_module(f"policy.commands.{COMMANDS[options.name][0]}").run(options))
        # a reader that went away is met here, and not at the end of the process
        sys.stdout.flush()
        return ending
    except PolicyError as error:
        print(f"policy: {error}" if not any(problem.span for problem in error.problems) else str(error), file=sys.stderr)
        return 2
    except BrokenPipeError:
        # the reader went away; nothing more can be said to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        place = f" `{error.filename}`" if error.filename else ""
        return _fail(f"cannot read or write{place}: {(error.strerror or str(error)).lower()}", "look at the path, its permissions and the space left")
    except ModuleNotFoundError as error:
        missing = REQUIRED.get((error.name or "").partition(".")[0])
        if missing is None:
            raise
        return _fail(f"the package {missing}, which this needs, is not installed", f"python -m pip install {missing}")
    except KeyboardInterrupt:
        return 130


def _unknown(command: str | None, parser: argparse.ArgumentParser, rest: Sequence[str], given: Sequence[str]) -> int:
    """Say which word is not understood, and what was probably meant."""
    from policy.launchers.read import launch_in
    from policy.pack import did_you_mean

    start = launch_in(given[1:])
    if start is not None:
        before, after = (" ".join(part) for part in (given[: start + 1], given[start + 1 :]))
        return _fail("a launch is written after `--`", f"policy {before} -- {after}")
    name = f"policy {command}" if command else "policy"
    word = next((one for one in rest if one.startswith("-")), rest[0])
    kind = "option" if word.startswith("-") else "word"
    known = [option for action in parser_of(parser, command)._actions for option in action.option_strings]
    near = did_you_mean(word.partition("=")[0], known) if kind == "option" else ""
    return _fail(f"`{word}` is no {kind} that `{name}` takes", near or f"`{name} --help` lists what it takes")


def parser_of(parser: argparse.ArgumentParser, command: str | None) -> argparse.ArgumentParser:
    """The parser of a command; that of `policy` itself where none is named."""
    if command is None:
        return parser
    found: argparse.ArgumentParser = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction)).choices[command]
    return found


def _fail(message: str, help: str) -> int:
    print(f"policy: {message}\n  help: {help}", file=sys.stderr)
    return 2


def _version() -> int:
    from policy.load import read_pack

    pack = read_pack()
    print(f"fusion-policy {pack.version} (pack {pack.digest})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
