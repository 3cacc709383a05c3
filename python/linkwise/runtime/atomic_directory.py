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
from linkwise.runtime.signals import uninterrupted

_REPLACED = "linkwise-old"  # the suffix of a directory's name while another one replaces it


class AtomicDirectory:
    """A directory that replaces its target once it is completely filled. Raises ``OSError``, ``UsageError``.

    An existing directory is replaced if it is empty, or with ``force``. Until the new one is complete, it has a
    temporary name beside the target, and is locked: an unlocked one was left by a dead process, and the next writer
    of the same directory removes it, or with ``resume`` continues the latest.
    """

    def __init__(self, path: Path, *, force: bool = False, resume: bool = False) -> None:
        try:
            self._target = path.resolve()  # a symbolic link is followed, not replaced
        except (OSError, RuntimeError) as error:
            raise UsageError(f"{path} is no directory to write: {error}") from None
        if not self._target.name:
            raise UsageError(f"{path} cannot be replaced; name a directory in it")
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
        self._check_empty()
        if self._resume and self._take_over():
            return self
        sweep_directories(self._target)
        try:
            with uninterrupted("nothing was written"):
                self.path.mkdir()
                self._lock = _opened(self.path)
                lock(self._lock)
        except BaseException:
            self.discard()
            raise
        return self

    def _check_empty(self) -> None:
        if not self._force and self._target.exists() and any(self._target.iterdir()):
            raise UsageError(f"{self._target} has files in it; name another directory, or replace it (--force)")

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
        with uninterrupted(f"{self._target} is complete"):
            self._check_empty()  # other processes may have written there meanwhile
            replaced = self._replace() if self._target.exists() else None
            if replaced is None:
                self.path.rename(self._target)  # which may be an empty directory
            sync_directory(self._target.parent)
            self.leave()
        if replaced is not None:
            shutil.rmtree(replaced, ignore_errors=True)

    def _replace(self) -> Path | None:
        """Put the directory in the place of one that has files; returns where that is now, ``None`` if it has none."""
        before = self._target.stat()
        with contextlib.suppress(PermissionError):  # only the superuser may change the owner
            os.fchown(self._lock, before.st_uid, before.st_gid)
        os.fchmod(self._lock, before.st_mode & 0o7777)
        if not any(self._target.iterdir()):
            return None
        if _exchange(self.path, self._target):  # the old one has a temporary name now, and is swept if we are killed
            return self.path
        # If the process is killed in between, the old directory keeps a name that is never swept.
        replaced = self._beside(_REPLACED)
        self._target.rename(replaced)
        try:
            self.path.rename(self._target)
        except BaseException:
            replaced.rename(self._target)
            raise
        return replaced

    def leave(self) -> None:
        """Unlock the directory, and leave it to the next run that resumes."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def discard(self) -> None:
        """Remove the new directory, and leave the target as it was; after a commit, what has been replaced."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.leave()


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two directories in one step; returns whether the system can."""
    import ctypes  # noqa: PLC0415 - slow, and seldom needed

    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return int(renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange)) == 0


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
    there = _beside(target.resolve())
    for entry in there:
        remove_if_abandoned(str(entry), is_directory=True)
    return [entry for entry in there if not entry.exists()]
