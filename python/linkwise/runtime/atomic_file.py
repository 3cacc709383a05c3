"""Files that appear complete or not at all, and leave nothing behind if they are not completed.

A file is written in its target's directory and renamed. Until it is complete it has no name (``O_TMPFILE``), so that
even a killed process leaves nothing behind. If the file system does not support that, it has a random name and is
locked: an unlocked one was left by a dead process, and the next writer of the same file removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from linkwise._core import Error, UsageError
from linkwise.runtime.signals import uninterrupted

SUFFIX = "linkwise-tmp"
"""The suffix of the names of unfinished outputs."""
_LONGEST = 150  # bytes of the file's name in the temporary name, which may have 255


class AtomicFile:
    """A file that replaces its target once it is completely written. Raises ``OSError`` and ``UsageError``.

    It takes the owner and mode of a file that it replaces, except setuid and setgid, since the contents are new. A
    read-only file is replaced only with ``force``, which is ``None`` where nobody could ask for it.
    """

    def __init__(self, path: Path, *, force: bool | None = False) -> None:
        self._path = path.resolve()  # a symbolic link is followed, not replaced
        self._force = force
        self._temporary: Path | None = None  # its name, while it has one
        self.file: BinaryIO

    def __enter__(self) -> Self:
        before = self._path.stat() if self._path.exists() else None
        if before is not None and not self._force and self._is_read_only(before):
            otherwise = "remove it" if self._force is None else "force its replacement (--force)"
            raise UsageError(f"{self._path} is read-only; make it writable, or {otherwise}")
        self._sweep()
        self.file = os.fdopen(self._open(), "w+b")
        try:
            if before is not None:
                self._inherit(before)
        except BaseException:
            self.discard()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.discard()
            return
        try:
            self.commit()
        except BaseException:
            self.discard()
            raise

    def commit(self) -> None:
        """Flush the file to disk, then move it into place."""
        self.file.flush()
        os.fsync(self.file.fileno())
        with uninterrupted(f"{self._path} is complete"):
            if self._temporary is None:
                self._temporary = self._give_a_name()
            self._temporary.replace(self._path)
            self._temporary = None
            self.file.close()
            sync_directory(self._path.parent)

    def discard(self) -> None:
        """Drop the new file, and leave the target as it was."""
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)
            self._temporary = None
        with contextlib.suppress(OSError):  # closing flushes, which may fail on a full disk
            self.file.close()

    def _is_read_only(self, before: os.stat_result) -> bool:
        return not before.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(self._path, os.W_OK)

    def _open(self) -> int:
        try:
            descriptor = os.open(self._path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
        except OSError:  # not supported here; any other problem shows when a named file is opened
            return self._open_named()
        if not os.path.exists(_by_descriptor(descriptor)):  # without /proc it could not be given a name later
            os.close(descriptor)
            return self._open_named()
        lock(descriptor)
        return descriptor

    def _open_named(self) -> int:
        while True:
            temporary = self._random_name()
            try:
                descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                continue
            lock(descriptor)
            if os.fstat(descriptor).st_nlink:  # otherwise it was swept before it was locked
                self._temporary = temporary
                return descriptor
            os.close(descriptor)

    def _give_a_name(self) -> Path:
        while True:
            temporary = self._random_name()
            with contextlib.suppress(FileExistsError):
                descriptor = self.file.fileno()
                # The absolute path makes no use of src_dir_fd, but without one Python would not follow the link.
                os.link(_by_descriptor(descriptor), temporary, src_dir_fd=descriptor, follow_symlinks=True)
                return temporary

    def _inherit(self, before: os.stat_result) -> None:
        descriptor = self.file.fileno()
        with contextlib.suppress(PermissionError):  # only the superuser may change the owner
            os.fchown(descriptor, before.st_uid, before.st_gid)
        os.fchmod(descriptor, before.st_mode & 0o777)

    def _prefix(self) -> str:
        return f".{os.fsdecode(os.fsencode(self._path.name)[:_LONGEST])}."

    def _random_name(self) -> Path:
        return self._path.with_name(f"{self._prefix()}{os.urandom(4).hex()}.{SUFFIX}")

    def _sweep(self) -> None:
        """Remove unfinished versions of the same file that dead processes have left."""
        ours = re.compile(rf"{re.escape(self._prefix())}[0-9a-f]{{8}}\.{SUFFIX}", re.DOTALL)
        with contextlib.suppress(OSError), os.scandir(self._path.parent) as entries:
            for entry in entries:
                if ours.fullmatch(entry.name):
                    remove_if_abandoned(entry.path)


def _by_descriptor(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def lock(descriptor: int) -> None:
    """Lock a file or directory, to mark it as being written."""
    with contextlib.suppress(OSError):  # where files cannot be locked, none is taken for abandoned
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_if_abandoned(path: str, *, is_directory: bool = False) -> None:
    """Remove a file or directory that no process has locked."""
    with contextlib.suppress(OSError):  # it is locked, or we lack permission
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            mode = os.fstat(descriptor).st_mode
            if not (stat.S_ISDIR if is_directory else stat.S_ISREG)(mode):
                return
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_directory:
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        finally:
            os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Flush a directory's entries to disk."""
    with contextlib.suppress(OSError):  # some file systems cannot
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_bytes(path: Path, contents: bytes) -> None:
    """Write a small file. Raises ``Error``."""
    try:
        if path.exists() and not path.is_file():  # a device or a pipe stays what it is
            path.write_bytes(contents)
            return
        with AtomicFile(path, force=None) as whole:
            whole.file.write(contents)
    except OSError as error:
        raise _cannot_write(path, error) from None


def _cannot_write(path: Path, error: OSError) -> Error:
    return Error(f"cannot write {path}: {error.strerror or os.strerror(error.errno or errno.EIO)}")


def check_output(path: Path) -> None:
    """Raise, before the work begins, what writing the file would raise: ``Error`` or ``UsageError``."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory; name a file in it")
    if path.exists() and not path.is_file():
        return
    make_directories(path)
    whole = AtomicFile(path, force=None)
    try:
        whole.__enter__()
    except OSError as error:
        raise _cannot_write(path, error) from None
    whole.discard()


def check_json_output(path: Path) -> None:
    """The same for a file that is given as a machine or plan later. Raises ``UsageError`` for other names."""
    if path.suffix != ".json":
        raise UsageError(f"'{path}' would not be found again: a profile, machine or plan is named as FILE.json")
    check_output(path)


def make_directories(path: Path) -> None:
    """Create the parent directories of a file. Raises ``Error``."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Error(f"cannot write {path}: {error.strerror}") from None


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object as JSON, and create its parent directories. Raises ``Error``."""
    make_directories(path)
    write_bytes(path, json.dumps(value, indent=1, allow_nan=False).encode())
