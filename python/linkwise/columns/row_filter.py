"""Row filters as text: ``price > 3 and (city in ('Oslo', 'Lima') or note is null)``.

Grammar: comparisons of a column with a value (``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``), ``[not] in (…)``,
``is [not] null``, ``not``, ``and``, ``or``, parentheses. Names that are not plain words are in double quotes; values
are numbers, ``true``, ``false`` or, in single quotes, text and ISO 8601 dates and times. A comparison with a null is
neither true nor false. Nothing else is evaluated.
"""

from __future__ import annotations

import datetime
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, InvalidOperation, localcontext
from typing import Any

from linkwise._arrow import pa, pc
from linkwise._core import UsageError
from linkwise.runtime.arguments import in_one_line

_TOKEN = re.compile(
    r"""\s*(?:(?P<name>"(?:[^"]|"")+")|(?P<text>'(?:[^']|'')*')|(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<symbol><=|>=|!=|<>|==|[=<>(),])|(?P<word>\w+))""",
    re.VERBOSE,
)
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<>": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
"""What the symbols do, of arrays of NumPy and of expressions."""

_DEEPEST = 100  # nested parentheses and negations
_LONGEST_NUMBER = 400  # digits
_MOST_DIGITS = 1000  # of numbers with an exponent
_MOST_COMPARISONS = 1000  # PyArrow recurses into them, on a stack of limited size


@dataclass(frozen=True)
class _Between:
    """A number that a column's type does not have, and the greatest below it that it has, if there is one."""

    floor: pa.Scalar | None


def column_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _told(kind: str, text: str) -> str:
    return text if kind == "end" else in_one_line(text)


class _Parser:
    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text, self._schema = text, schema
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._wrong(f"{text[at:].strip()[:20]!r} cannot be read")
            self._tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            at = found.end()
        self._at = 0
        self._comparisons = 0

    def _wrong(self, why: str) -> UsageError:
        return UsageError(
            f"the filter {in_one_line(self._text)}: {why}; write it like price > 3 and city in ('Oslo', 'Lima')"
        )

    def _next(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "the end")

    def _take(self) -> tuple[str, str]:
        token = self._next()
        self._at += 1
        return token

    def _takes(self, *words: str) -> bool:
        """Take these words or symbols if they come next."""
        tokens = self._tokens[self._at : self._at + len(words)]
        is_next = [text.lower() for kind, text in tokens if kind in ("word", "symbol")] == list(words)
        self._at += len(words) * is_next
        return is_next

    def whole(self) -> Any:
        found = self._any(0)
        if self._next()[0] != "end":
            raise self._wrong(f"{self._next()[1]!r} is not expected there")
        return found

    def _any(self, depth: int) -> Any:
        found = self._all(depth)
        while self._takes("or"):
            found |= self._all(depth)
        return found

    def _all(self, depth: int) -> Any:
        found = self._one(depth)
        while self._takes("and"):
            found &= self._one(depth)
        return found

    def _one(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise self._wrong("it is too deep")
        if self._takes("not"):
            return ~self._one(depth + 1)
        if self._takes("("):
            found = self._any(depth + 1)
            if not self._takes(")"):
                raise self._wrong(f"a ')' is missing before {self._next()[1]}")
            return found
        return self._comparison()

    def _comparison(self) -> Any:
        self._comparisons += 1
        if self._comparisons > _MOST_COMPARISONS:
            raise self._wrong(f"it has more than {_MOST_COMPARISONS} comparisons; 'in' takes any number of values")
        kind, text = self._take()
        if kind not in ("word", "name"):
            raise self._wrong(f"the name of a column should stand where {_told(kind, text)} is")
        name = text[1:-1].replace('""', '"') if kind == "name" else text
        if name not in self._schema.names:
            raise self._wrong(f"there is no column {name!r}; there are {', '.join(map(repr, self._schema.names))}")
        if self._schema.names.count(name) > 1:
            raise self._wrong(f"there are several columns {name!r}; rename them")
        column, of = pc.field(name), self._schema.field(name).type
        if self._takes("is", "not", "null"):
            return column.is_valid()
        if self._takes("is", "null"):
            return column.is_null()
        if self._takes("not", "in"):
            return ~self._in(column, of)
        if self._takes("in"):
            return self._in(column, of)
        kind, text = self._take()
        if kind != "symbol" or text not in COMPARE:
            raise self._wrong(f"a comparison should stand where {_told(kind, text)} is")
        return self._compared(column, of, text)

    def _compared(self, column: Any, of: pa.DataType, how: str) -> Any:
        value = self._value(of)
        if not isinstance(value, _Between):
            return COMPARE[how](column, value)
        if how in (">", ">=") and value.floor is not None:
            return column > value.floor
        if how in ("<", "<=") and value.floor is not None:
            return column <= value.floor
        return pc.if_else(column.is_valid(), pa.scalar(how in (">", ">=", "!=", "<>")), pa.scalar(None, pa.bool_()))

    def _in(self, column: Any, of: pa.DataType) -> Any:
        values: list[Any] = []
        if not self._takes("("):
            raise self._wrong("'in' takes values in parentheses")
        while not values or self._takes(","):
            values.append(self._value(of))
        if not self._takes(")"):
            raise self._wrong(f"a ')' is missing before {self._next()[1]}")
        kind = column_type(of)
        # A number that the column's type does not have equals none of its values.
        same = [value.as_py() for value in values if not isinstance(value, _Between)]
        is_in = column.isin(pa.array(same, kind))
        return pc.if_else(column.is_valid(), is_in, pa.scalar(None, pa.bool_()))

    def _value(self, of: pa.DataType) -> Any:
        """The next value, in the column's type; ``_Between`` where that type does not have it."""
        kind, text = self._take()
        plain: Any
        of = column_type(of)
        if kind == "number":
            if len(text) > _LONGEST_NUMBER:
                raise self._wrong(f"{text[:20]}… is no {of}")
            if pa.types.is_integer(of) or pa.types.is_decimal(of):
                return self._exact(text, of)
            if not pa.types.is_floating(of):
                raise self._wrong(f"{text} is no {of}")
            plain = int(text) if re.fullmatch(r"-?\d+", text) else float(text)
        elif kind == "text":
            plain = text[1:-1].replace("''", "'")
        elif kind == "word" and text.lower() in ("true", "false"):
            plain = text.lower() == "true"
        else:
            raise self._wrong(f"a value should stand where {_told(kind, text)} is")
        try:
            if pa.types.is_time(of) and kind == "text":
                return self._time(plain, of)
            return pa.scalar(plain).cast(of)
        except (pa.ArrowException, OverflowError, ValueError):
            raise self._wrong(f"{ascii(text)[1:-1]} is no {of}") from None

    @staticmethod
    def _time(text: str, of: pa.DataType) -> Any:
        """A time of day, which PyArrow does not cast from text."""
        time = datetime.time.fromisoformat(text)
        found = pa.scalar(time, of)
        if found.as_py() != time:
            raise ValueError(f"{text} is between two values of {of}")
        return found

    def _exact(self, text: str, of: pa.DataType) -> Any:
        """A number in a type of exact numbers: not by way of a float, which would round it."""
        try:
            with localcontext(prec=_MOST_DIGITS):
                number, (least, greatest) = Decimal(text), range_of(of)
                floor = number.quantize(Decimal(1).scaleb(-of.scale if pa.types.is_decimal(of) else 0), ROUND_FLOOR)
        except InvalidOperation:
            raise self._wrong(f"{text} is no {of}") from None
        if floor < least:
            return _Between(None)
        floor = min(floor, greatest)
        found = pa.scalar(floor if pa.types.is_decimal(of) else int(floor), of)
        return found if floor == number else _Between(found)


def range_of(kind: pa.DataType) -> tuple[Decimal, Decimal]:
    """The least and the greatest value of a type of integers or decimals."""
    if pa.types.is_decimal(kind):
        greatest = Decimal(10**kind.precision - 1).scaleb(-kind.scale)
        return -greatest, greatest
    if pa.types.is_unsigned_integer(kind):
        return Decimal(0), Decimal((1 << kind.bit_width) - 1)
    return Decimal(-(1 << kind.bit_width - 1)), Decimal((1 << kind.bit_width - 1) - 1)


def filter_from_text(text: str, schema: pa.Schema) -> Any:
    """A filter as a PyArrow expression. Raises ``UsageError``."""
    return _Parser(text, schema).whole()
