"""Thin clients in other languages, each with what its own generator makes of the .proto files."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.fetched import CACHE, once, tool
from tests.java.jars import jars, main_class
from tests.rooms import ROOT

HERE: Final = Path(__file__).parent
PROTOS: Final = tuple(
    f"tailrace/protocol/proxy/{name}.proto" for name in ("common", "write_proxy", "read_proxy")
)
_PROTOC: Final = (sys.executable, "-m", "grpc_tools.protoc")
"""Knows no Java."""
_GO_MODULE: Final = "tailrace/tests/interop/proxies/go"
_GO_BUILD: Final = (
    *("go", "build", "-buildvcs=false", "-gcflags=all=-l -dwarf=false", "-ldflags=-s -w"),
)
_GO_SETTINGS: Final = {"CGO_ENABLED": "0", "GOGC": "400"}
"""As for franz-go: what is compiled is compiled quickly, and once for both."""
_GO_TOOLS: Final = (
    "google.golang.org/protobuf/cmd/protoc-gen-go",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
    "github.com/fullstorydev/grpcurl/cmd/grpcurl",
)
_NODE_FILES: Final = ("package.json", "package-lock.json", ".npmrc", "main.js")


def go_programs() -> dict[str, list[str]]:
    """Return the commands of the Go client and of grpcurl; built once, from the module proxy."""
    tool("go")
    source, folder = HERE / "go", CACHE / "proxies-go"
    with once(folder, _content([*sorted(source.iterdir()), *_protos()])) as todo:
        if todo:
            shutil.copytree(source, folder, dirs_exist_ok=True)
            # `go build` takes a folder to build several commands into.
            _run([*_GO_BUILD, "-o", f"{folder}/bin/", *_GO_TOOLS], folder, _GO_SETTINGS)
            where = [f"M{each}={_GO_MODULE}/proxyv1" for each in PROTOS]
            options = [
                f"--{kind}_opt={value}"
                for kind in ("go", "go-grpc")
                for value in (f"module={_GO_MODULE}", *where)
            ]
            plugins = [
                f"--plugin={folder}/bin/{name}" for name in ("protoc-gen-go", "protoc-gen-go-grpc")
            ]
            _generate([*plugins, f"--go_out={folder}", f"--go-grpc_out={folder}", *options])
            _run([*_GO_BUILD, "-o", f"{folder}/bin/client", "."], folder, _GO_SETTINGS)
    return {name: [str(folder / "bin" / name)] for name in ("client", "grpcurl")}


def java_program() -> list[str]:
    """Return the command of the Java client; its library comes through Maven."""
    jars("proxies")
    protoc, plugin = (
        next((CACHE / "java" / "proxies").glob(f"{name}-[0-9]*.exe"))
        for name in ("protoc", "protoc-gen-grpc-java")
    )
    folder = CACHE / "proxies-java"
    with once(folder, _content([protoc, plugin, *_protos()])) as todo:
        if todo:
            protoc.chmod(0o755)
            plugin.chmod(0o755)
            how = [f"--plugin=protoc-gen-grpc-java={plugin}"]
            _generate([*how, f"--java_out={folder}", f"--grpc-java_out={folder}"], [str(protoc)])
    return main_class("proxies", "ThinClient", "proxies", generated=folder)


def node_program() -> list[str]:
    """Return the command of the Node client, which loads the .proto files itself."""
    node, npm = tool("node"), tool("npm")
    source, folder = HERE / "node", CACHE / "proxies-node"
    with once(folder, _content([source / name for name in _NODE_FILES])) as todo:
        if todo:
            for name in _NODE_FILES:
                shutil.copy(source / name, folder)
            _run([npm, "ci", "--ignore-scripts"], folder)
    return [node, str(folder / "main.js"), str(ROOT)]


def _protos() -> list[Path]:
    return [ROOT / each for each in PROTOS]


def _content(paths: Sequence[Path]) -> bytes:
    return b"".join(path.read_bytes() for path in paths)


def _generate(options: Sequence[str], protoc: Sequence[str] = _PROTOC) -> None:
    _run([*protoc, "--proto_path=.", *options, *PROTOS], ROOT)


def _run(command: Sequence[str], folder: Path, settings: Mapping[str, str] | None = None) -> None:
    environment = {**os.environ, **(settings or {})}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
