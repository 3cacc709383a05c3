"""Struct fields as columns, named by their paths with dots, as ``address.city``.

A column that has such a name itself takes precedence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from linkwise._arrow import pa, pc


def names_inside(schema: pa.Schema) -> list[str]:
    """The names of all fields of structs, at any depth."""
    return [name for field in schema for name in _inside(field)]


def _inside(field: pa.Field) -> Iterator[str]:
    if not pa.types.is_struct(field.type):
        return
    for at in range(field.type.num_fields):
        inner = field.type.field(at)
        yield f"{field.name}.{inner.name}"
        yield from (f"{field.name}.{name}" for name in _inside(inner))


def is_ambiguous(name: str, columns: Sequence[str], inside: Sequence[str]) -> bool:
    """Whether several columns have the name, or several fields (``inside``)."""
    return (columns if name in columns else inside).count(name) > 1


def _way_to(name: str, fields: Sequence[pa.Field]) -> tuple[str, str]:
    """The outermost column, and the path inside it; an empty path for the column itself."""
    if any(field.name == name for field in fields):
        return name, ""
    # A name may have dots itself: of 'a.b.c', a column 'a' or 'a.b' may have the field.
    having = [field.name for field in fields if name in _inside(field)]
    outer = max(having, key=len)
    return outer, name.removeprefix(f"{outer}.")


def outer_columns(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns that are named, or that contain the named fields as far as names tell, each once."""
    ways = ([name] if name in columns else [c for c in columns if name.startswith(f"{c}.")] for name in names)
    return list(dict.fromkeys(column for way in ways for column in way))


def with_fields(table: pa.Table, names: Collection[str]) -> pa.Table:
    """The table, followed by these struct fields as columns with the names of their paths."""
    for name in names:
        table = table.append_column(name, column_named(table, name))
    return table


def type_named(schema: pa.Schema, name: str) -> pa.DataType:
    """The type of a column, or of a struct field."""
    outer, inner = _way_to(name, list(schema))
    kind = schema.field(outer).type
    while inner:
        field, inner = _way_to(inner, [kind.field(at) for at in range(kind.num_fields)])
        kind = kind.field(field).type
    return kind


def column_named(table: pa.Table, name: str) -> pa.ChunkedArray:
    """A column of a table, or a struct field of one, which is null where its struct is null."""
    outer, inner = _way_to(name, list(table.schema))
    column = table[outer]
    while inner:
        field, inner = _way_to(inner, [column.type.field(at) for at in range(column.type.num_fields)])
        column = pc.struct_field(column, field)
    return column
