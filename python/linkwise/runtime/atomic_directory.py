"""Directories that appear complete or not at all; see ``atomic_file``."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from pathlib import Path
from typing import Self

from linkwise._core import UsageError
from linkwise.runtime.atomic_file import SUFFIX, lock, remove_if_abandoned, sync_directory

_REPLACED = "linkwise-old"  # the suffix of a directory's name while another one replaces it


class AtomicDirectory:
    """A directory that replaces its target once it is completely filled. Raises ``OSError``, ``UsageError``.

    An existing directory is replaced if it is empty, or with ``force``. Until the new one is complete, it has a
    temporary name beside the target, and is locked: an unlocked one was left by a dead process, and the next writer
    of the same directory removes it, or with ``resume`` continues the latest.
    """

    def __init__(self, path: Path, *, force: bool = False, resume: bool = False) -> None:
        self._target = Path(os.path.abspath(path))
        self._force, self._resume = force, resume
        self.path = self._beside(SUFFIX)
        """The directory to fill."""
        self._lock = -1
        self.was_left = False
        """Whether a dead process has begun to fill it."""

    def _beside(self, suffix: str) -> Path:
        return self._target.with_name(f".{self._target.name}.{os.urandom(4).hex()}.{suffix}")

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
        """Take over the latest unfinished directory of a dead process; returns whether there was one."""
        left = sorted(_beside(self._target), key=lambda each: each.lstat().st_mtime, reverse=True)
        for path in left:
            try:
                descriptor = _opened(path)
            except OSError:  # a link, or gone
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_ours = os.fstat(descriptor).st_uid == os.geteuid()
            except OSError:  # another process fills it
                is_ours = False
            if not is_ours:  # another user's is not continued: its contents are not trusted
                os.close(descriptor)
                continue
            self.path, self._lock, self.was_left = path, descriptor, True
            return True
        return False

    def commit(self) -> None:
        """Move the directory into place."""
        sync_directory(self.path)
        # If the process is killed in between, the old directory keeps a name that is never swept.
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
        """Unlock the directory, and leave it to the next run that resumes."""
        os.close(self._lock)

    def discard(self) -> None:
        """Remove the new directory, and leave the target as it was."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _beside(target: Path) -> list[Path]:
    """Unfinished directories that were to replace this target."""
    ours = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.{SUFFIX}", re.DOTALL)
    with contextlib.suppress(OSError):
        return [entry for entry in target.parent.iterdir() if ours.fullmatch(entry.name)]
    return []


def sweep_directories(target: Path) -> list[Path]:
    """Remove unfinished directories for this target that dead processes have left; returns those removed."""
    there = _beside(Path(os.path.abspath(target)))
    for entry in there:
        remove_if_abandoned(str(entry), is_directory=True)
    return [entry for entry in there if not entry.exists()]
