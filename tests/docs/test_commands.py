"""The commands on the pages exist with their options and can be run."""

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from loadstream.commands import app
from schemas.policy import read_policy
from tests.conftest import RunningBroker
from tests.docs.pages import PAGES, ROOT, blocks, name, spans

_COMMANDS = get_command(app)
_MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
#: Placeholders on the pages, and values to run the commands with.
_VALUES = {
    "CLUSTER": "blue", "C": "blue", "FILE": "deploy/policies/observe.yaml", "NODE": "n1", "P": "0",
    "NAMESPACE/POD": "shop/web-1", "NAMESPACE/NAME": "shop/web-1", "ID": "m-12345678", "DIR": "d", "TIME": "15m",
    "samples.jsonl": "/dev/null",
}  # fmt: skip
#: Commands that do not end by themselves, wait for a worker, or take minutes.
_GO_ON = {
    "broker", "worker", "demo", "simulate", "agent", "kubernetes", "closed-loop", "--follow", "-f", "--wait",
}  # fmt: skip
#: Options that reduce a day of a cluster to a few minutes of a few nodes.
_SMALL = ("--nodes", "4", "--hours", "0.1", "--seeds", "1", "--set", "filling_hours=0.1")


def _pieces(text: str) -> Iterator[list[str]]:
    """Yield the commands of a shell line without comments, redirections and explanations."""
    text = re.split(r"\s#\s|\s{3,}", text.strip())[0]
    for piece in re.split(r"\|\s|&&|;|&(?=\s|$)|\s\d?>\S*", text):
        words = shlex.split(re.sub(r"[\[\]]|\.\.\.", " ", piece))
        while words and (words[0] in ("until", "sh") or re.fullmatch(r"[A-Z_]+=\S*", words[0])):
            words.pop(0)
        if words:
            yield words


def _ours(texts: Iterable[tuple[int, str]], page: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of loadstream, make and Python among texts, with their positions."""
    for number, text in texts:
        if re.search(r"(?:^|[\s/])(?:loadstream|make|python) [a-z-]", text):
            for words in _pieces(text):
                if words[0] in ("loadstream", "make") or words[0].endswith("/python"):
                    yield f"{name(page)}:{number}", words


#: In blocks, which can be pasted, and within prose, where a command may be named without what it
#: needs.
_SHOWN = [
    command
    for page in PAGES
    for block in blocks(page)
    for command in _ours(((line.number, line.text) for line in block), page)
]
_NAMED = [*_SHOWN, *(command for page in PAGES for command in _ours(spans(page), page))]


def _command(words: list[str]) -> Any:
    """Return the innermost command of a line."""
    command: Any = _COMMANDS
    for word in words[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    return command


def _problems(words: list[str], command: Any) -> list[str]:
    """Return the words of a command line that do not exist."""
    rest, values = list(words), 0
    while rest:
        word = rest.pop(0)
        if word.startswith("-") and word != "-":
            options = {text: param for param in command.params for text in param.opts}
            options |= {text: param for param in command.params for text in param.secondary_opts}
            option = options.get(word)
            if option is None:
                return [f"{command.name} has no option {word}"]
            if not getattr(option, "is_flag", False) and rest:
                rest.pop(0)
        elif hasattr(command, "commands"):
            if word not in command.commands:
                return [f"there is no command {word}"]
            command = command.commands[word]
        else:
            values += 1
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    takes = len(arguments)
    if any(argument.nargs < 0 for argument in arguments):
        return []
    return [f"{command.name} takes {takes} values"] if values > takes else []


@pytest.mark.parametrize(
    ("where", "words"),
    [(where, words) for where, words in _NAMED if words[0] == "loadstream"],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_command_of_a_page_exists_with_its_options(where: str, words: list[str]) -> None:
    assert _problems(words[1:], _COMMANDS) == [], where


def test_explanations_of_a_command_name_existing_options() -> None:
    wrong = []
    for page in PAGES:
        for block in blocks(page):
            for line in block:
                pieces = [piece for piece in _pieces(line.text) if piece[0] == "loadstream"]
                if not pieces:
                    continue
                command = _command(pieces[0])
                options = {text for param in command.params for text in param.opts}
                shown_options = re.findall(r"(?<!\S)--[a-z-]+", line.text.split("loadstream", 1)[1])
                wrong += [f"{line}: {option}" for option in shown_options if option not in options]
    assert wrong == []


@pytest.mark.parametrize(
    ("where", "words"),
    [(where, words) for where, words in _NAMED if words[0] == "make"],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_target_of_make_exists_with_its_variables(where: str, words: list[str]) -> None:
    targets = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
    for target in targets:
        assert re.search(rf"^{re.escape(target)}:", _MAKEFILE, re.MULTILINE), where
    for variable in (word.split("=")[0] for word in words[1:] if "=" in word):
        assert f"$({variable})" in _MAKEFILE or f"$(if $({variable})" in _MAKEFILE, where


@pytest.mark.parametrize(
    ("where", "words"),
    [(where, words) for where, words in _NAMED if words[0].endswith("/python")],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_module_that_a_page_runs_exists_with_its_options(where: str, words: list[str]) -> None:
    assert words[1] == "-m", where
    module = ROOT / words[2].replace(".", "/") / "__main__.py"
    source = module.read_text(encoding="utf-8")
    for option in (word for word in words[3:] if word.startswith("--")):
        assert f'"{option}"' in source, where


def test_policies_of_the_page_on_policies_are_valid() -> None:
    read = 0
    for block in blocks(ROOT / "docs" / "reference" / "policy-format.md"):
        text = "\n".join(line.text.removeprefix("    ") for line in block)
        if text.startswith("loadstream"):
            continue
        pools = {name for part in yaml.safe_load(text).values() for name in _pools(part)}
        thresholds = {"highThresholds": {"cpu": 70}, "lowThresholds": {"cpu": 45}}
        rebalance = {"nodePools": [{"name": name, **thresholds} for name in sorted(pools)]}
        read_policy(f"{text}\n{yaml.safe_dump({'rebalance': rebalance})}".encode())
        read += 1
    assert read >= 2


def _pools(part: object) -> Iterator[str]:
    """Pools in a section `rebalance`."""
    if isinstance(part, dict):
        for entry in part.get("pools", ()):
            yield entry["name"]
        for entry in part.get("hotspots", ()):
            yield entry["pool"]


def test_the_commands_of_a_page_run_on_a_broker(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except for commands that run until they are stopped. No cluster exists, which is an error but no
    usage error.
    """
    monkeypatch.chdir(ROOT)
    ran = 0
    address = {"LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": embedded.bootstrap_servers}
    assert CliRunner().invoke(app, ["topic", "create"], env=address).exit_code == 0
    for where, words in _SHOWN:
        if words[0] != "loadstream" or _GO_ON & set(words):
            continue
        arguments = [_VALUES.get(word, word) for word in words[1:]]
        result = CliRunner().invoke(app, arguments, env=address, input="")
        assert result.exception is None or isinstance(result.exception, SystemExit), (where, words)
        assert result.exit_code in (0, 1, 2, 3), (where, result.output)
        assert "Usage: loadstream" not in result.output, (where, result.output)
        ran += 1
    assert ran > 20


@pytest.mark.parametrize(
    ("where", "words"),
    [(where, words) for where, words in _SHOWN if words[1:2] == ["closed-loop"]],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_closed_loop_of_a_page_runs_in_small(
    where: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trace does not exist, which is an error."""
    (tmp_path / "mine.yaml").write_text("mode: enforce\n")
    monkeypatch.chdir(tmp_path)
    values = {**_VALUES, "FILE": "mine.yaml"}
    result = CliRunner().invoke(app, [*(values.get(word, word) for word in words[1:]), *_SMALL])
    assert result.exit_code == (2 if "--trace" in words else 0), (where, result.output)
    assert "Usage: loadstream" not in result.output
