"""The fields of sort and join plans: their valid values, pinned or left to the planner.

A field that is ``None`` is left to the planner. Any other is pinned: it is kept, or an error names it and says why it
cannot be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np

from linkwise import _core
from linkwise._core import UsageError
from linkwise._shown import html_table
from linkwise.machines.description import parsed_json
from linkwise.runtime.arguments import gpu_numbers, in_one_line, parse_bytes
from linkwise.runtime.atomic_file import write_json

On = Literal["host", "gpus"]
"""Where the data to be sorted is."""

ON_GPUS = ("radix", "p2p_merge", "het")
"""The strategies that use GPUs."""

_BOTH: tuple[On, ...] = ("host", "gpus")
_LARGE = 1 << 60
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class PlanPath(NamedTuple):
    """A route over other GPUs for a fraction of the bytes between two places, named as ``host0`` or ``gpu3``."""

    source: str
    target: str
    over: tuple[int, ...]
    fraction: float = 1.0


class Kind(NamedTuple):
    """What values a field has. Its functions raise ``ValueError``, ``TypeError`` or ``UsageError`` for others."""

    what: str
    """The valid values in words, for error messages."""
    checked: Callable[[Any], Any]
    """Checks a value, and returns it as it is stored."""
    parsed: Callable[[str], Any]
    """Parses the text after ``field=``."""
    choices: tuple[str, ...] = ()


class FieldInfo(NamedTuple):
    """The properties of a field: its valid values, and which plans have it."""

    kind: Kind
    of: tuple[str, ...]
    """The strategies of a sort, or paths of a join, that have it; empty for all."""
    data: tuple[On, ...]
    short: str | None
    """A short name for ``parse``."""


def _refuse(*_: Any) -> Any:
    raise ValueError


def one_of(*names: str) -> Kind:
    """One of some names."""
    return Kind(" or ".join(names), lambda value: value if value in names else _refuse(), str, names)


def whole_number(least: int, *, most: int = _LARGE, is_size: bool = False) -> Kind:
    """A whole number; ``parse`` reads a size in bytes also as ``1MiB``, and a count as ``1e6``."""

    def checked(value: Any) -> int:
        is_whole = not isinstance(value, (bool, np.bool_, str)) and int(value) == value
        return int(value) if is_whole and least <= value <= most else _refuse()

    def parsed(text: str) -> int:
        return int(text) if text.isdecimal() else parse_bytes(text) if is_size else _whole(float(text))

    what = f"a whole number from {least}" + (f" to {most}" if most < _LARGE else " on")
    return Kind(what, checked, parsed)


def _whole(number: float) -> int:
    return int(number) if number == int(number) else _refuse()


def flag() -> Kind:
    """True or false."""
    return Kind(
        "True or False",
        lambda value: bool(value) if isinstance(value, bool) else _refuse(),
        lambda text: _FLAGS[text.lower()] if text.lower() in _FLAGS else _refuse(),
    )


def share() -> Kind:
    """A fraction of a whole."""

    def checked(value: Any) -> float:
        is_number = not isinstance(value, (bool, np.bool_, str))
        return float(value) if is_number and 0 <= float(value) <= 1 else _refuse()

    return Kind("a number from 0 to 1", checked, float)


def gpu_list() -> Kind:
    """GPU numbers; in ``parse`` they are separated by +."""
    return Kind(
        "a list of GPU numbers",
        lambda value: tuple(gpu_numbers(value)),
        lambda text: [int(number) for number in text.split("+")],
    )


def path_list() -> Kind:
    """Routes over GPUs, which can be given only in Python and JSON."""
    what = "a list of paths, as PlanPath('host0', 'gpu3', (2,), 0.5)"
    return Kind(what, lambda value: tuple(_checked_path(path) for path in value), _refuse)


def _checked_path(value: Any) -> PlanPath:
    source, target, over, fraction = PlanPath(**value) if isinstance(value, Mapping) else PlanPath(*value)
    for place in (source, target):
        _place(place)
    return PlanPath(source, target, tuple(gpu_numbers(over)), share().checked(fraction))


def _place(name: str) -> _core.Place:
    for kind, made in (("host", _core.Place.host), ("gpu", _core.Place.gpu)):
        if isinstance(name, str) and name.startswith(kind) and name[len(kind) :].isdecimal():
            return made(int(name[len(kind) :]))
    raise ValueError


def plan_field(kind: Kind, *of: str, data: tuple[On, ...] = _BOTH, short: str | None = None) -> Any:
    """A field of a plan; ``of``: the strategies, or paths, that have it, none for all."""
    return field(default=None, metadata={"plan": FieldInfo(kind, of, data, short)})


class Plan:
    """The common base of sort and join plans. Their fields are made by ``plan_field``."""

    KIND: ClassVar[str]

    @classmethod
    @cache
    def field_infos(cls) -> dict[str, FieldInfo]:
        """The fields that can be pinned."""
        return {each.name: each.metadata["plan"] for each in fields(cast(Any, cls)) if "plan" in each.metadata}

    def check_values(self) -> None:
        """Check every pinned value, and store it as its kind defines. Raises ``UsageError``."""
        for name, value in self.pinned.items():
            kind = self.field_infos()[name].kind
            try:
                object.__setattr__(self, name, kind.checked(value))
            except (TypeError, ValueError, OverflowError, UsageError):
                raise UsageError(f"{name} is {in_one_line(value)}; it is {kind.what}") from None

    @property
    def pinned(self) -> dict[str, Any]:
        """The fields that are not left to the planner."""
        values = {name: getattr(self, name) for name in self.field_infos()}
        return {name: value for name, value in values.items() if value is not None}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and (self.KIND, self.as_dict()) == (other.KIND, other.as_dict())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.pinned.items())})"

    def _repr_html_(self) -> str:
        return html_table(str(self), self.pinned)

    def __hash__(self) -> int:
        return hash((self.KIND, *self.pinned.items()))

    def as_dict(self) -> dict[str, Any]:
        """The pinned fields as plain values, as JSON has them."""
        told = {name: _listed(value) for name, value in self.pinned.items()}
        if "paths" in told:
            told["paths"] = [{**path._asdict(), "over": list(path.over)} for path in told["paths"]]
        return told

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self:
        """The plan from the result of ``as_dict``. Raises ``UsageError`` for unknown fields."""
        if not isinstance(told, Mapping):
            raise UsageError(f"the fields of a plan are a dict, not {in_one_line(told)}")
        for name in told:
            if name not in cls.field_infos():
                raise UsageError(f"a {cls.KIND} plan has no field '{name}'; it has {', '.join(cls.field_infos())}")
        return cls(**told)

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, which ``load`` and ``--plan`` read. Raises ``Error``."""
        write_json(Path(path), {"linkwise_plan": self.KIND, **self.as_dict()})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what ``save`` has written. Raises ``UsageError``."""
        told = parsed_json(Path(path), "plan")
        if not isinstance(told, dict) or told.get("linkwise_plan") != cls.KIND:
            raise UsageError(f"{path} is no {cls.KIND} plan: its field 'linkwise_plan' is not '{cls.KIND}'")
        try:
            return cls.from_dict({name: value for name, value in told.items() if name != "linkwise_plan"})
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None

    @classmethod
    def parse(cls, text: str) -> Self:
        """From words like ``"het,buffers=3,eager"``, or the name of a ``.json`` file. Raises ``UsageError``.

        A word is a strategy (for a join, a path), the name of a true-or-false field, or ``field=value``. GPUs are
        given as ``gpus=0+2``.
        """
        if not isinstance(text, str):
            raise UsageError(f"a plan in words is text, not {in_one_line(text)}")
        return cls.load(text) if text.endswith(".json") else cls.from_words(list(filter(None, text.split(","))))

    @classmethod
    def from_words(cls, words: Iterable[str]) -> Self:
        """See ``parse``."""
        told: dict[str, Any] = {}
        for word in words:
            found = cls.parsed_word(word.strip())
            if found is None:
                there_are = ", ".join(cls.field_infos())
                raise UsageError(
                    f"{in_one_line(word.strip())} is nothing that a {cls.KIND} plan has; it has {there_are}"
                )
            add_once(told, *found)
        return cls(**told)

    @classmethod
    def parsed_word(cls, word: str) -> tuple[str, Any] | None:
        """The field that a word of ``parse`` pins, and its value; ``None`` if it names no field."""
        name, equals, value = word.partition("=")
        for full, info in cls.field_infos().items():
            if not equals and word in info.kind.choices and full in ("strategy", "path"):
                return full, word
            if name not in (full, info.short):
                continue
            try:
                return full, info.kind.parsed(value if equals else "true")
            except (ValueError, OverflowError, UsageError):
                raise UsageError(f"{full} is {in_one_line(value)}; it is {info.kind.what}") from None
        return None

    def __str__(self) -> str:
        words = [f"{name}={value}" for name, value in self.pinned.items()]
        return ", ".join(words) + "; the rest as the planner chooses" if words else "as the planner chooses"


def add_once(told: dict[str, Any], name: str, value: Any) -> None:
    """Record the value that a word gives a field. Raises ``UsageError`` if the field already has one."""
    if name in told:
        raise UsageError(f"{name} is said twice, as {told[name]} and {value}; leave one out")
    told[name] = value


_ENUMS: dict[str, Any] = {
    "strategy": _core.SortStrategy,
    "exchange": _core.Exchange,
    "splitting": _core.Splitting,
    "cpu_algorithm": _core.CpuAlgorithm,
    "path": _core.JoinPath,
}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def set_fields(plan: Any, pinned: Mapping[str, Any]) -> None:
    """Give a plan of the core these values."""
    for name, value in pinned.items():
        if name == "paths":
            plan.paths = [_core.Path(_place(p.source), _place(p.target), list(p.over), p.fraction) for p in value]
        else:
            setattr(plan, name, getattr(_ENUMS[name], value) if name in _ENUMS else _listed(value))


def values_of(plan: Any, names: Iterable[str]) -> dict[str, Any]:
    """The values of these fields of a core plan."""
    told = {name: getattr(plan, name) for name in names}
    for name in told.keys() & _ENUMS.keys():
        told[name] = told[name].name
    if "paths" in told:
        told["paths"] = [PlanPath(repr(p.source), repr(p.target), tuple(p.over), p.fraction) for p in told["paths"]]
    return told
