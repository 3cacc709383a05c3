"""Directories that appear complete or not at all; see ``atomic_file``."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import Self

from linkwise._core import UsageError
from linkwise.runtime.atomic_file import SUFFIX, lock, remove_if_abandoned, sync_directory

_REPLACED = "linkwise-old"  # what the name of a directory ends in while another one takes its place


class AtomicDirectory:
    """A directory that is to be filled, and takes its place when it is complete. Raises ``OSError``, ``UsageError``.

    What is there already is replaced if it is an empty directory, or if ``force`` says so. Until it is complete, it has
    another name beside its place, and is locked: what is not locked was left by a process that is gone, and the next to
    write the same directory removes it, or with ``resume`` goes on with the latest.
    """

    def __init__(self, path: Path, *, force: bool = False, resume: bool = False) -> None:
        self._target = Path(os.path.abspath(path))
        self._force, self._resume = force, resume
        self.path = self._beside(SUFFIX)
        """Where it is filled."""
        self._lock = -1
        self.was_left = False
        """Whether a process that is gone has begun to fill it."""

    def _beside(self, suffix: str) -> Path:
        return self._target.with_name(f".{self._target.name}.{secrets.token_hex(4)}.{suffix}")

    def __enter__(self) -> Self:
        if self._target.exists() and not self._target.is_dir():
            raise UsageError(f"{self._target} is a file; name a directory, in which several files can be")
        if not self._force and self._target.exists() and any(self._target.iterdir()):
            raise UsageError(f"{self._target} has files in it; name another directory, or replace it (--force)")
        if self._resume and self._take_over():
            return self
        sweep_directories(self._target)
        self.path.mkdir()
        self._lock = _opened(self.path)
        lock(self._lock)
        return self

    def _take_over(self) -> bool:
        """Whether there is one that was left: the latest is this one's from now on."""
        left = sorted(_beside(self._target), key=lambda each: each.lstat().st_mtime, reverse=True)
        for path in left:
            try:
                descriptor = _opened(path)
            except OSError:  # a link, or gone
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_ours = os.fstat(descriptor).st_uid == os.geteuid()
            except OSError:  # somebody fills it
                is_ours = False
            if not is_ours:  # nobody else's is gone on with: it may have anything in it
                os.close(descriptor)
                continue
            self.path, self._lock, self.was_left = path, descriptor, True
            return True
        return False

    def commit(self) -> None:
        """Put it in its place."""
        sync_directory(self.path)
        # Whoever is killed in between leaves it under a name that nobody sweeps away.
        before = self._beside(_REPLACED) if self._target.exists() else None
        if before is not None:
            self._target.rename(before)
        try:
            self.path.rename(self._target)
        except BaseException:
            if before is not None:
                before.rename(self._target)
            raise
        sync_directory(self._target.parent)
        os.close(self._lock)
        if before is not None:
            shutil.rmtree(before, ignore_errors=True)

    def leave(self) -> None:
        """Leave it to the next one that goes on with it."""
        os.close(self._lock)

    def discard(self) -> None:
        """Leave everything as it was."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _beside(target: Path) -> list[Path]:
    """Unfinished directories that are to take its place."""
    ours = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.{SUFFIX}", re.DOTALL)
    with contextlib.suppress(OSError):
        return [entry for entry in target.parent.iterdir() if ours.fullmatch(entry.name)]
    return []


def sweep_directories(target: Path) -> list[Path]:
    """Remove what processes that are gone have left of the same directory; returns what is gone."""
    there = _beside(Path(os.path.abspath(target)))
    for entry in there:
        remove_if_abandoned(str(entry), is_directory=True)
    return [entry for entry in there if not entry.exists()]
