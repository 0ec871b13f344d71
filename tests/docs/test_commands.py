"""Every command of README and docs, as a reader pastes it.

A block in `sh` is run, line by line, against what the page has started before. The block in `text`
behind it shows lines that the commands print. A note before a block (an HTML comment) says
`needs: zookeeper`, or `only checked: why`: then the words are checked against what they name.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.checked import check
from tests.docs.command_line import TooMuchShell, check_names, is_server, parse
from tests.docs.pages import PAGES, Block, blocks, blocks_of, inline_code, name_of
from tests.docs.reader import Places, Reader, shows
from tests.rooms import ROOT
from tests.zookeeper import ZooKeeperServer

LANGUAGES = {"sh", "text", "python", "java", "json", "toml", "properties"}
NOTES = {"needs", "only checked"}


def needs_zookeeper(page: Path) -> bool:
    return any(block.notes.get("needs") == "zookeeper" for block in blocks(page))


ONLY_CHECKED = [block for block in blocks_of("sh") if "only checked" in block.notes]
WITH_COMMANDS = [
    pytest.param(page, marks=[pytest.mark.java] if needs_zookeeper(page) else [], id=name_of(page))
    for page in PAGES
    if any(b.language == "sh" and "only checked" not in b.notes for b in blocks(page))
]


@pytest.fixture
def places(request: pytest.FixtureRequest) -> Places:
    """Where the page's addresses are; with a node of a ZooKeeper if it needs one."""
    page: Path = request.getfixturevalue("page")
    if not needs_zookeeper(page):
        return Places()
    server = request.getfixturevalue("zookeeper")
    assert isinstance(server, ZooKeeperServer)
    return Places(server.port, server.make_root())


@pytest.fixture
def reader(places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.chdir(tmp_path)
    reader = Reader(places, monkeypatch)
    yield reader
    reader.close()


@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_the_commands_of_a_page_work_in_order(page: Path, reader: Reader) -> None:
    printed: str | None = None
    for block in blocks(page):
        if block.language == "text":
            if printed is not None:
                assert shows(printed, block), f"{block.place}: not in\n{printed}"
        elif block.language == "sh" and "only checked" not in block.notes:
            printed = reader.paste(block)
        else:
            printed = None


@pytest.mark.parametrize("block", ONLY_CHECKED, ids=lambda block: block.place)
def test_what_is_not_run_is_checked(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_METADATA", "zk://127.0.0.1:2181/ledgers")
    monkeypatch.setenv("TAILRACE_NAMESPACE", "distributedlog://127.0.0.1:2181/messaging/orders")
    for line in block.lines:
        command = parse(line)
        for words in command.commands if command else ():
            check(words)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_say_what_they_are(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, block.place
        assert block.notes.keys() <= NOTES, block.place
        assert block.notes.get("needs", "zookeeper") in ("zookeeper", "docker"), block.place


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_nothing_is_pasted_before_a_server_is_ready(page: Path) -> None:
    """Behind a server a block has other servers at most: what needs them is in the next one."""
    for block in blocks(page):
        lines = block.lines if block.language == "sh" else ()
        commands = [command for command in map(parse, lines) if command]
        serving = [is_server(command.commands[0]) for command in commands]
        assert serving == sorted(serving), block.place
        served = [command for command in commands if is_server(command.commands[0])]
        assert all(command.is_background for command in served[:-1]), block.place


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_within_sentences_have_names_that_exist(page: Path) -> None:
    for code in inline_code(page):
        if code.startswith(("tailrace ", "make ")):
            command = parse(code)
            assert command is not None
            words = command.commands[0]
            check(words) if words[0] == "make" else check_names(words)


@pytest.mark.parametrize(
    "line",
    [
        "tailrace topic list; tailrace group list",
        "tailrace topic list && tailrace group list",
        "tailrace topic create $NAME",
        "tailrace topic create <name>",
        "tailrace topic list > topics",
    ],
)
def test_a_line_that_is_more_than_one_command_is_refused(line: str) -> None:
    with pytest.raises(TooMuchShell):
        parse(line)


def test_alternatives_are_a_pipe_to_no_program() -> None:
    command = parse("tailrace cleaner status|plan")
    assert command is not None
    with pytest.raises(AssertionError, match="no check is known for plan"):
        check(command.commands[1])


def test_make_run_starts_what_stands_for_it_here() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nrun:")[2].partition("\n\n")[0]
    assert recipe.endswith("$(BIN)/tailrace start $(ARGS)")
