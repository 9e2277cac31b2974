"""`policy completion SHELL`: words for the shell to complete: commands, options, fusions, facts, devices and rules."""

from __future__ import annotations

import argparse

from policy.cli import COMMANDS, parser_for
from policy.commands import common
from policy.pack import Pack

EXAMPLE = "policy completion bash > ~/.local/share/bash-completion/completions/policy"
SHELLS = ("bash", "zsh", "fish")

BASH = """\
_policy() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}" word
  for word in "${{COMP_WORDS[@]:0:COMP_CWORD}}"; do
    if [ "$word" = "--" ]; then COMPREPLY=(); return; fi
  done
  case "$previous" in
    --set) COMPREPLY=($(compgen -S = -W "{facts}" -- "$current")); compopt -o nospace 2>/dev/null; return ;;
    --device) COMPREPLY=($(compgen -W "{devices}" -- "$current")); return ;;
    --require) COMPREPLY=($(compgen -W "{fusions}" -- "$current")); return ;;
    --posture) COMPREPLY=($(compgen -W "safe fast audit" -- "$current")); return ;;
    --mode) COMPREPLY=($(compgen -W "advise enforce fail" -- "$current")); return ;;
    --fail-on) COMPREPLY=($(compgen -W "{kinds}" -- "$current")); return ;;
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then COMPREPLY=($(compgen -W "{commands}" -- "$current")); return; fi
  case "$command" in
{cases}
  esac
}}
complete -o default -F _policy policy
"""


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy completion`."""
    parser.add_argument("shell", choices=SHELLS)
    common.add_pack(parser)


def run(options: argparse.Namespace) -> int:
    """Print the script for one shell."""
    pack = common.load(options)
    print(fish(pack) if options.shell == "fish" else ("autoload -Uz bashcompinit && bashcompinit\n" if options.shell == "zsh" else "") + bash(pack), end="")
    return common.OK


def words_of(command: str, pack: Pack) -> list[str]:
    """The options of a command, and the names its words may have."""
    child = next(action for action in parser_for(command)._actions if isinstance(action, argparse._SubParsersAction)).choices[command]
    listed = [option for action in child._actions for option in action.option_strings if option.startswith("--")]
    names = {
        "explain": sorted(pack.fusions),
        "resolve": sorted(pack.fusions),
        "rule": sorted(pack.rules),
        "why-not": [f"{name}=on" for name in sorted(pack.fusions)],
    }
    return [*sorted(listed), *names.get(command, [])]


def bash(pack: Pack) -> str:
    """A completion function for bash (and zsh through bashcompinit)."""
    cases = "\n".join(f'    {command}) COMPREPLY=($(compgen -W "{" ".join(words_of(command, pack))}" -- "$current")) ;;' for command in COMMANDS)
    facts = " ".join(name for name in sorted(pack.facts) if not name.startswith("traits."))
    return BASH.format(
        facts=facts,
        devices=" ".join(sorted(pack.devices)),
        fusions=" ".join(sorted(pack.fusions)),
        kinds=" ".join(common.FAIL_ON),
        commands=" ".join(COMMANDS),
        cases=cases,
    )


def fish(pack: Pack) -> str:
    """Completions for fish."""
    lines = ["complete -c policy -f"]
    for command, (_, help) in COMMANDS.items():
        lines.append(f"complete -c policy -n __fish_use_subcommand -a {command} -d '{help.replace(chr(39), '')}'")
        for word in words_of(command, pack):
            kind = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            lines.append(f"complete -c policy -n '__fish_seen_subcommand_from {command}' {kind}")
    return "\n".join(lines) + "\n"
