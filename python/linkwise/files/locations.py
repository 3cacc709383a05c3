"""Where tables are: local files, remote files named by URIs, and in-memory objects."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit, urlunsplit

import pyarrow as pa

from linkwise._core import UsageError

PIPE = Path("-")
"""Stands for standard input and output."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")  # a single letter would be a Windows drive


@dataclass(frozen=True, eq=False)
class RemoteFile:
    """A file that a URI names, as ``s3://bucket/key``, or a directory."""

    filesystem: Any
    """A file system of PyArrow, or one of fsspec wrapped by PyArrow."""
    path: str
    """The path within the file system."""
    uri: str

    def __str__(self) -> str:
        return self.uri

    @cached_property
    def _name(self) -> PurePosixPath:
        return PurePosixPath(self.path)

    @property
    def suffix(self) -> str:
        """The suffix of the name, as of a ``Path``."""
        return self._name.suffix

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return self._name.stem

    @property
    def parts(self) -> tuple[str, ...]:
        """The directories, and the name."""
        return self._name.parts

    @property
    def is_http(self) -> bool:
        """Whether it is read over HTTP."""
        return self.uri.startswith(("http://", "https://"))

    def open(self) -> pa.NativeFile:
        """Open it for random access."""
        return self.filesystem.open_input_file(self.path)

    def open_stream(self, codec: str | None) -> pa.NativeFile:
        """Open it for sequential reading."""
        if self.is_http:  # not every server supports range requests
            whole = pa.PythonFile(self.filesystem.handler.fs.open(self.path, block_size=0), "r")
            return whole if codec is None else pa.CompressedInputStream(whole, codec)
        return self.filesystem.open_input_stream(self.path, compression=codec)

    def version(self) -> tuple[object, ...]:
        """Type, size and modification time, by which changes are detected."""
        told = self.filesystem.get_file_info(self.path)
        return told.type, told.size, told.mtime_ns


@dataclass(frozen=True, eq=False)
class TableSource:
    """An in-memory or lazy source: an object with an Arrow stream, a dataset, a lazy frame."""

    source: Any

    def __str__(self) -> str:
        return f"the {type(self.source).__name__}"

    @property
    def parts(self) -> tuple[str, ...]:
        """The name alone; it is in no directory."""
        return (str(self),)


Location: TypeAlias = Path | RemoteFile | TableSource

Source: TypeAlias = Any
"""Anything that can be read as tables: a name, a path, a URI, or an object that ``TableSource`` accepts."""


def location_of(named: Any) -> Location:
    """The location that a name, a URI or an object stands for. Raises ``UsageError``."""
    if isinstance(named, Path | RemoteFile | TableSource):
        return named
    if isinstance(named, os.PathLike):
        named = os.fspath(named)
    if not isinstance(named, str):
        if is_table_source(named):
            return TableSource(named)
        raise UsageError(f"name files to read, not a {type(named).__name__}")
    if is_uri(named):
        return remote_file(named)
    return PIPE if named in ("-", "/dev/stdin", "/dev/stdout") else Path(named)


def target_of(named: Any) -> Path | RemoteFile:
    """The location to write a result to. Raises ``UsageError``."""
    location = location_of(named)
    if isinstance(location, TableSource):
        raise UsageError(f"name a file to write, not {location}")
    return location


def is_table_source(value: Any) -> bool:
    """Whether an object that is not a file name can be read as tables."""
    has_ways = ("__arrow_c_stream__", "scanner", "to_reader", "collect_schema")
    return not isinstance(value, type) and any(hasattr(value, way) for way in has_ways)


def is_uri(name: object) -> bool:
    """Whether a name is a URI."""
    return isinstance(name, str) and _URI.match(name) is not None


def remote_file(uri: str) -> Path | RemoteFile:
    """The file that a URI names; a ``file:`` URI gives a path. Raises ``UsageError``."""
    from pyarrow import fs  # noqa: PLC0415 - loads cloud libraries

    parts = urlsplit(uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    shown = _without_secrets(uri)
    if "::" in uri or parts.scheme in _OF_OTHERS:
        raise UsageError(f"{shown}: files inside of others, and lists of them, are not read; name the file itself")
    try:
        if parts.scheme not in ("http", "https"):
            filesystem, path = fs.FileSystem.from_uri(uri)
            return RemoteFile(filesystem, path, shown)
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem" not in str(error):
            raise _wrong(uri, error) from None
    except (pa.ArrowException, OSError, ImportError) as error:
        raise _wrong(uri, error) from None
    try:
        import fsspec  # type: ignore[import-untyped] # noqa: PLC0415

        filesystem, path = fsspec.core.url_to_fs(uri)
    except (ImportError, ValueError) as error:
        raise _wrong(uri, error, "; pip install 'linkwise[remote]' has what most need") from None
    return RemoteFile(fs.PyFileSystem(fs.FSSpecHandler(filesystem)), path, shown)


# Protocols of fsspec that refer to other files; one of them renders templates found in a file.
_OF_OTHERS = {
    "reference", "zip", "tar", "libarchive", "cached", "blockcache", "filecache", "simplecache", "dir", "generic",
    "git",
}  # fmt: skip


def _wrong(uri: str, error: Exception, what_to_do: str = "") -> UsageError:
    shown = _without_secrets(uri)
    return UsageError(f"{shown}: {str(error).replace(uri, shown)}{what_to_do}")


def _without_secrets(uri: str) -> str:
    """A URI, or a chain of them, as messages may show it: without user names, passwords and queries."""

    def shown(one: str) -> str:
        parts = urlsplit(one)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    return "::".join(map(shown, uri.split("::")))


def is_pipe(location: Location) -> bool:
    """Whether it is a stream: standard input or output, a named pipe, a device."""
    if not isinstance(location, Path):
        return False
    # Unlike the methods of a path, functions of os.path accept any name.
    is_there = os.path.exists(location)
    return location == PIPE or (is_there and not os.path.isfile(location) and not os.path.isdir(location))


def size_of(location: Location) -> int | None:
    """Bytes of a local file; ``None`` for streams and other sources."""
    return location.stat().st_size if isinstance(location, Path) and not is_pipe(location) else None


def name_of(location: Location, what: Literal["read", "write"]) -> str:
    """What to call it in a message."""
    return {"read": "standard input", "write": "standard output"}[what] if location == PIPE else str(location)
