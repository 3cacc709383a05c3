"""Where the files of a result go: a shared directory, or remote storage. Either appears as a whole."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from linkwise._core import Error, UsageError
from linkwise.cluster import manifest
from linkwise.cluster.run_state import RunState
from linkwise.files.formats import one_clear_line
from linkwise.files.locations import PIPE, RemoteFile
from linkwise.runtime.atomic_directory import AtomicDirectory, sweep_directories
from linkwise.runtime.atomic_file import write_json

_OF_A_RUN = re.compile(r"part-\d{5,}-[0-9a-f]{8}\.parquet(\.[0-9a-f]{8}\.linkwise-tmp)?")


class Target(Protocol):
    """A directory that is to be filled."""

    def path(self, number: int) -> Path | RemoteFile:
        """The path of a partition's file."""

    def state(self, request: dict[str, Any]) -> RunState | None:
        """The checkpoint of an earlier run with the same request, or a new one; ``None`` if the target keeps none."""

    def commit(self, told: dict[str, Any]) -> None:
        """Make the files visible, with the manifest that describes them."""


@contextmanager
def open_target(named: Path | RemoteFile, *, force: bool, resume: bool) -> Iterator[Target]:
    """Fill a directory, which is left unchanged if anything fails. Raises ``Error``."""
    if isinstance(named, RemoteFile):
        if resume:
            raise UsageError(f"{named}: a run goes on in a directory that all nodes share; leave --resume out")
        target = _RemoteDirectory(named, secrets.token_hex(4), force=force)
        try:
            yield target
        except BaseException:
            target.discard()
            raise
        return
    if named == PIPE:
        raise UsageError("a cluster writes a directory of files; name one")
    with one_clear_line("write", named):
        directory = AtomicDirectory(named, force=force, resume=resume).__enter__()
    try:
        yield _LocalDirectory(named, directory, is_resumed=resume)
    except BaseException:
        if directory.was_left:  # the earlier run's work is kept if resuming it fails
            directory.leave()
        else:
            directory.discard()
        raise


@dataclass(frozen=True)
class _LocalDirectory:
    named: Path
    directory: AtomicDirectory
    is_resumed: bool

    def path(self, number: int) -> Path:
        return self.directory.path / f"part-{number:05}.parquet"

    def state(self, request: dict[str, Any]) -> RunState:
        return RunState.open(self.directory.path, request, is_resumed=self.is_resumed)

    def commit(self, told: dict[str, Any]) -> None:
        with one_clear_line("write", self.named):
            RunState.remove(self.directory.path)
            write_json(self.directory.path / manifest.NAME, told)
            names = {manifest.NAME, *(file["name"] for file in told["files"])}
            _remove_others(self.directory.path, names)  # which dead workers have left
            self.directory.commit()
            _remove_others(self.named, names)  # of second tries that were still writing


def _remove_others(directory: Path, names: set[str]) -> None:
    for entry in directory.iterdir():
        if entry.name not in names:
            entry.unlink(missing_ok=True)


class _RemoteDirectory:
    """File names contain the run; the result is the files named in the manifest, which is written last."""

    def __init__(self, directory: RemoteFile, run: str, *, force: bool) -> None:
        self._directory, self._run = directory, run
        self._is_there = False
        with one_clear_line("write", directory):
            self._before = _files_in(directory)
        if self._before and not force:
            raise UsageError(f"{directory} has files in it; name another directory, or replace it (--force)")

    def path(self, number: int) -> RemoteFile:
        return _inside(self._directory, f"part-{number:05}-{self._run}.parquet")

    def state(self, request: dict[str, Any]) -> None:
        del request

    def commit(self, told: dict[str, Any]) -> None:
        with one_clear_line("write", self._directory):
            to = _inside(self._directory, manifest.NAME)
            with to.filesystem.open_output_stream(to.path) as stream:
                stream.write(json.dumps(told, indent=1).encode())
            self._is_there = True
            for path in self._before:
                if not path.endswith(f"/{manifest.NAME}"):
                    self._directory.filesystem.delete_file(path)

    def discard(self) -> None:
        if self._is_there:  # committed, even if old files could not be removed
            return
        with contextlib.suppress(OSError):
            for path in _files_in(self._directory):
                if f"-{self._run}.parquet" in path:
                    self._directory.filesystem.delete_file(path)


def _inside(directory: RemoteFile, name: str) -> RemoteFile:
    return replace(directory, path=f"{directory.path.rstrip('/')}/{name}", uri=f"{directory.uri.rstrip('/')}/{name}")


def _files_in(directory: RemoteFile) -> list[str]:
    from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415 - which loads libraries of the clouds

    selector = FileSelector(directory.path, allow_not_found=True)
    told = directory.filesystem.get_file_info(selector)
    return [each.path for each in told if each.type == FileType.File]


def clean(named: Path | RemoteFile) -> list[str]:
    """Remove what runs whose driver was killed have left at a target; returns what was removed. Raises ``Error``.

    In remote storage it cannot be known which runs are still active, so none may be.
    """
    if not isinstance(named, RemoteFile):
        return [str(path) for path in sweep_directories(named)]
    with one_clear_line("write", named):
        return list(_clean_remote(named))


def _clean_remote(directory: RemoteFile) -> Iterator[str]:
    there = _files_in(directory)
    kept: set[str] = set()
    of_manifest = [path for path in there if path.endswith(f"/{manifest.NAME}")]
    for path in of_manifest:
        with directory.filesystem.open_input_stream(path) as stream:
            try:
                kept = {file["name"] for file in json.loads(stream.read())["files"]}
            except (ValueError, KeyError, TypeError):
                raise Error(f"{directory}: {manifest.NAME} is damaged; remove what is not wanted yourself") from None
    for path in there:
        name = path.rpartition("/")[2]
        if _OF_A_RUN.fullmatch(name) and name not in kept:
            directory.filesystem.delete_file(path)
            yield f"{directory.uri.rstrip('/')}/{name}"
