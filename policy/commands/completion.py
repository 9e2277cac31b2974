"""`policy completion SHELL`: words for the shell to complete: commands, options and their values, fusions, facts, devices
and rules. Everything is taken from the commands' own parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from policy.cli import COMMANDS, parser_for, parser_of
from policy.commands import common
from policy.pack import Pack
from policy.records import dataclass

EXAMPLE = "policy completion bash > ~/.local/share/bash-completion/completions/policy"
SHELLS = ("bash", "zsh", "fish")
#: Where the values of an option come from, by its name among the parsed options.
SOURCES = {"device": "devices", "require": "fusions", "fusion": "fusions", "fail_on": "kinds", "assignments": "facts"}
#: Where the words of a command come from; files stand beside them.
WORDS = {"explain": "fusions", "resolve": "fusions", "rule": "rules", "why-not": "requests", "upgrade": "products"}

BASH = """\
_policy() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}" word values=""
{lists}
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:0:$COMP_CWORD}}"; do
    if [ "$word" = "--" ]; then return; fi
  done
  if [ "$COMP_CWORD" -eq 1 ]; then COMPREPLY=($(compgen -W "{commands}" -- "$current")); return; fi
  if [ "$previous" = "--set" ]; then
    COMPREPLY=($(compgen -S = -W "$facts" -- "$current")); compopt -o nospace 2>/dev/null; return
  fi
  case "$command $previous" in
{values}
    *)
      case "$command" in
{words}
      esac ;;
  esac
  COMPREPLY=($(compgen -W "$values" -- "$current"))
}}
complete -o default -F _policy policy
"""


@dataclass(frozen=True, slots=True)
class Option:
    """One long option: what it does, whether a value follows it, and the values: words, or `$NAME` for a list."""

    name: str
    help: str
    valued: bool
    values: str = ""


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy completion`."""
    parser.add_argument("shell", choices=SHELLS)
    common.add_pack(parser)


def run(options: argparse.Namespace) -> int:
    """Print the script for one shell."""
    pack = common.load(options)
    print(fish(pack) if options.shell == "fish" else ("autoload -Uz bashcompinit && bashcompinit\n" if options.shell == "zsh" else "") + bash(pack), end="")
    return common.OK


def lists(pack: Pack) -> dict[str, list[str]]:
    """The names that a pack gives, by what they are."""
    fusions = sorted(pack.fusions)
    return {
        "facts": sorted(name for name in pack.facts if not name.startswith("traits.")),
        "devices": sorted(pack.devices),
        "fusions": fusions,
        "requests": [f"{name}=on" for name in fusions],
        "rules": sorted(pack.rules),
        "products": [f"{name}=" for name in sorted(pack.products)],
        "kinds": list(common.FAIL_ON),
    }


def options_of(command: str) -> Iterator[Option]:
    """The long options of a command."""
    for action in parser_of(parser_for(command), command)._actions:
        values = f"${SOURCES[action.dest]}" if action.dest in SOURCES else " ".join(map(str, action.choices or ()))
        for name in action.option_strings:
            if name.startswith("--"):
                yield Option(name, action.help or "", action.nargs != 0, values)


def words_of(command: str) -> str:
    """The words that a command takes beside files."""
    if command in WORDS:
        return f"${WORDS[command]}"
    actions = parser_of(parser_for(command), command)._actions
    return next((" ".join(map(str, action.choices)) for action in actions if not action.option_strings and action.choices), "")


def bash(pack: Pack) -> str:
    """A completion function for bash (and zsh through bashcompinit)."""
    values = [
        f'    "{command} {option.name}") values="{option.values}" ;;'
        for command in COMMANDS
        for option in options_of(command)
        if option.valued and option.name != "--set"
    ]
    words = [f'        {command}) values="{" ".join(sorted(option.name for option in options_of(command)))} {words_of(command)}" ;;' for command in COMMANDS]
    return BASH.format(
        lists="\n".join(f'  local {name}="{" ".join(names)}"' for name, names in lists(pack).items()),
        commands=" ".join(COMMANDS),
        values="\n".join(values),
        words="\n".join(words),
    )


def fish(pack: Pack) -> str:
    """Completions for fish."""
    names = {f"${name}": " ".join(f"{one}=" if name == "facts" else one for one in listed) for name, listed in lists(pack).items()}
    lines = [
        "function __policy_in; __fish_seen_subcommand_from $argv; and not contains -- -- (commandline -opc); end",
        "complete -c policy -n __fish_use_subcommand -f",
    ]
    for command, (_, help) in COMMANDS.items():
        lines.append(f"complete -c policy -n __fish_use_subcommand -a {command} -d {_quoted(help)}")
        start = f"complete -c policy -n '__policy_in {command}'"
        words = words_of(command)
        if words:
            lines.append(f"{start} -a {_quoted(names.get(words, words))}")
        for option in options_of(command):
            values = names.get(option.values, option.values)
            value = f" -x -a {_quoted(values)}" if values else " -r -F" if option.valued else ""
            lines.append(f"{start} -l {option.name[2:]}{value} -d {_quoted(option.help.partition(';')[0].replace('%', ''))}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
