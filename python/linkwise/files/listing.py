"""Expands sources to files: those that are named, those that match a pattern, and those in a directory."""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from linkwise._core import Error, UsageError
from linkwise.files.formats import ARRAY_FORMATS, FileOptions, known_format, one_clear_line
from linkwise.files.locations import PIPE, Location, RemoteFile, is_uri, location_of, remote_file

_HIDDEN = (".", "_")  # files with these prefixes are not part of a directory's table
_MAGIC = re.compile(r"[*\[]")  # in a URI, where a question mark begins the query


def expand(sources: Any) -> list[Location]:
    """The files that the sources stand for, those of a source ordered by name. Raises ``UsageError``."""
    several = sources if isinstance(sources, Sequence) and not isinstance(sources, str) else [sources]
    found = [each for source in several for each in _expanded(source)]
    if not found:
        raise UsageError("name at least one file to read")
    return found


def check_output(out: Path | RemoteFile, sources: Any, files: Sequence[Location], options: FileOptions) -> None:
    """Raise ``UsageError`` if an output is a file in an input directory, or a directory that has an input in it.

    ``files`` are those of the sources. One in a directory or of a pattern would be read again by the next run; one
    that is named may be replaced.
    """
    if not isinstance(out, Path) or out == PIPE:
        return
    target = os.path.realpath(out)
    here = [os.path.realpath(each) for each in files if isinstance(each, Path) and each != PIPE]
    if options.is_directory and any(Path(target) in Path(each).parents for each in here):
        raise UsageError(f"{out} is replaced as a whole, and has an input in it; name another directory")
    named = sources if isinstance(sources, Sequence) and not isinstance(sources, str) else [sources]
    if target in here and target not in {os.path.realpath(str(each)) for each in named}:
        raise UsageError(f"{out} is one of the files in a directory that is read; name another output")


def _expanded(source: Any) -> Iterable[Location]:
    if is_uri(source):
        return _remote(source)
    location = location_of(source)
    if not isinstance(location, Path) or location == PIPE:
        return [location]
    if not os.path.exists(location) and glob.has_magic(str(source)):
        if "**" in location.parts:
            _check_readable(location)
        found = sorted(glob.glob(str(source), recursive=True))
        if not found:
            raise UsageError(f"no file matches {source}")
        every = (_files_in(each) if each.is_dir() else [each] for each in map(Path, found))
        return dict.fromkeys(itertools.chain(*every))  # '**' matches directories as well as their contents
    return _files_in(location) if os.path.isdir(location) else [location]


def _fail(error: OSError) -> None:
    raise Error(f"cannot read {error.filename}: {error.strerror}")


def _check_readable(pattern: Path) -> None:
    """Raise ``Error`` for a directory that '**' would leave out without a word, because it cannot be read."""
    fixed = Path(*itertools.takewhile(lambda part: not glob.has_magic(part), pattern.parts))
    for _, folders, _ in os.walk(fixed, onerror=_fail) if fixed.is_dir() else ():
        folders[:] = [name for name in folders if not name.startswith(".")]  # which '**' does not match


def _files_in(directory: Path) -> list[Path]:
    """The tables in a directory and its subdirectories. Raises ``UsageError``."""
    found: list[Path] = []
    seen: set[tuple[int, int]] = set()  # directories, as links may lead back

    def is_new(folder: str) -> bool:
        known = len(seen)
        there = os.stat(folder)
        seen.add((there.st_dev, there.st_ino))
        return len(seen) > known

    for folder, folders, names in os.walk(directory, onerror=_fail, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(_HIDDEN) and is_new(os.path.join(folder, name))]
        inside = [Path(folder, name) for name in names if not name.startswith(_HIDDEN)]
        found += filter(_is_table, inside)
    _check_of_one_format(found, directory)
    return sorted(found)


def _check_of_one_format(found: Sequence[Location], directory: object) -> None:
    kinds = sorted({str(known_format(each)) for each in found})
    if not found:
        raise UsageError(f"there is no table in the directory {directory}")
    if len(kinds) > 1:
        raise UsageError(
            f"{directory} has tables of several formats, {', '.join(kinds)}; name those of one, as '*.parquet'"
        )


def _remote(uri: str) -> Iterable[Location]:
    """The file that a URI names, those that match its pattern, or those in its directory."""
    name, mark, query = uri.partition("?")
    magic = _MAGIC.search(name)
    base = name if magic is None else name[: name.rindex("/", 0, magic.start())]
    directory = remote_file(base + mark + query)
    if isinstance(directory, Path):
        return _expanded(f"{directory}{name[len(base) :]}")
    with one_clear_line("read", directory):
        if magic is None and not _is_directory(directory):
            return [directory]
        listed = sorted(_listed(directory), key=lambda each: each.path)
    if magic is None:
        found = [each for each in listed if _is_table(each) and not _is_hidden(each, directory)]
        _check_of_one_format(found, directory)
        return found
    pattern = name[len(base) + 1 :].split("/")
    like = [each for each in listed if is_like(_inside(each, directory).split("/"), pattern)]
    if not like:
        raise UsageError(f"no file matches {name}")
    return like


def _is_table(location: Location) -> bool:
    return known_format(location) not in (None, *ARRAY_FORMATS)


def _is_directory(location: RemoteFile) -> bool:
    from pyarrow.fs import FileType  # noqa: PLC0415

    return bool(location.filesystem.get_file_info(location.path).type == FileType.Directory)


def _listed(directory: RemoteFile) -> Iterator[RemoteFile]:
    """All files in a directory and its subdirectories."""
    from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415

    for told in directory.filesystem.get_file_info(FileSelector(directory.path, recursive=True)):
        if told.type == FileType.File:
            found = RemoteFile(directory.filesystem, told.path, directory.uri)
            yield replace(found, uri=f"{directory.uri.rstrip('/')}/{_inside(found, directory)}")


def _inside(file: RemoteFile, directory: RemoteFile) -> str:
    return file.path[len(directory.path.rstrip("/")) + 1 :]


def _is_hidden(file: RemoteFile, directory: RemoteFile) -> bool:
    return any(part.startswith(_HIDDEN) for part in _inside(file, directory).split("/"))


def is_like(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the components of a path match those of a pattern, where ``**`` is any number of directories."""
    # reached[n]: whether the first n components match the pattern up to here.
    reached = [True] + [False] * len(parts)
    for number, wanted in enumerate(pattern, 1):
        if wanted == "**":
            is_last = number == len(pattern)  # then it matches the file name as well
            first = reached.index(True) if True in reached else len(reached)
            reached = [at >= first + is_last for at in range(len(reached))]
        else:
            reached = [False] + [
                before and fnmatchcase(part, wanted.replace("?", "[?]"))
                for before, part in zip(reached, parts, strict=False)
            ]
    return reached[-1]
