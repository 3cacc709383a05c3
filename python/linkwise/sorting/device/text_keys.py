"""The numbers by which the GPUs sort strings.

Strings of few words are sorted by these, one after the other. Of longer ones the first words are compared that tell
nearly all apart, and then, of those that are still tied and not equal, the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from linkwise import _core
from linkwise._typing import Array
from linkwise.sorting.device.brought import TextExtent
from linkwise.sorting.device.device_columns import GpuColumns, Parts, Strings

FEW_WORDS = 8
"""Sorted by one after the other, whatever they are."""

_SORT_SECONDS, _ROW_SECONDS = 2e-4, 1.1e-10  # a sort by a word takes on an H200, about, and so much more a row
_SAMPLING_SECONDS = 3e-3
_RANKING = 6  # sorts by words take as long as ranking what was sorted, about
_SAMPLE = 1 << 12
_WORDS_AT_ONCE = 8  # of the sample
_MOST_SAMPLED_WORDS = 32
_MOST_TIED = 1 / 8  # of the strings may still be tied
_GOES_ON = 8  # the last byte of a word after which its string has more


@dataclass(frozen=True, eq=False)
class _Ranked:
    """Strings that were sorted by their first words.

    ``rows`` in that order, their dense ``ranks``, the positions of those that are ``tied`` and go on, and how many rows
    there are on each GPU.
    """

    rows: Parts
    ranks: Parts
    tied: Parts
    lengths: list[int]


def text_keys(gpus: GpuColumns, strings: Strings, extent: TextExtent, nulls: Parts | None) -> list[Parts]:
    """Columns that compare, one after the other, as strings do. Those of null rows are equal."""
    coarser: list[_Ranked] = []
    while True:
        first = _first_words(gpus, strings, extent)
        keys = gpus.words(strings, TextExtent(extent.begin, first), nulls)
        if first == extent.words:
            break
        ranked, strings = _with_equal_ones_settled(gpus, _ranked(gpus, keys), strings)
        nulls = None
        if not any(map(len, ranked.tied)):
            keys = [gpus.by_rows(ranked.rows, ranked.ranks, ranked.lengths)]
            break
        coarser.append(ranked)
        shared, longest = gpus.extent(strings, None)
        extent = TextExtent.of(max(shared, extent.begin + first * int(_core.BYTES_OF_WORD)), longest)
    for ranked in reversed(coarser):
        finer = gpus.refined(ranked.ranks, ranked.tied, gpus.row_ranks(keys))
        keys = [gpus.by_rows(ranked.rows, finer, ranked.lengths)]
    return keys


def _first_words(gpus: GpuColumns, strings: Strings, extent: TextExtent) -> int:
    """By how many words to sort before those are ranked that are still tied; all of them if that saves little."""
    rows = sum(strings.lengths)
    saved = (extent.words - _RANKING) * (_SORT_SECONDS + rows * _ROW_SECONDS)  # at best
    if extent.words <= FEW_WORDS or saved < 4 * _SAMPLING_SECONDS:
        return extent.words
    first = _telling_words(gpus, strings, extent, rows)
    return extent.words if first + _RANKING >= extent.words else first


def _ranked(gpus: GpuColumns, words: Sequence[Parts]) -> _Ranked:
    rows, in_order = gpus.in_order(words)
    ranks = gpus.dense_ranks(in_order)
    return _Ranked(rows, ranks, gpus.tied(ranks, in_order[-1]), [len(part) for part in words[0]])


def _with_equal_ones_settled(gpus: GpuColumns, ranked: _Ranked, strings: Strings) -> tuple[_Ranked, Strings]:
    """The same without strings that are tied because they are equal, and those that are tied still."""
    if not any(map(len, ranked.tied)):
        return ranked, strings
    tied = gpus.take_strings(strings, gpus.take(ranked.rows, ranked.tied))
    differing = gpus.of_unequal_groups(gpus.take(ranked.ranks, ranked.tied), tied)
    if sum(map(len, differing)) == sum(map(len, ranked.tied)):
        return ranked, tied
    return replace(ranked, tied=gpus.take(ranked.tied, differing)), gpus.take_strings(tied, differing)


def _telling_words(gpus: GpuColumns, strings: Strings, extent: TextExtent, rows: int) -> int:
    """How many words leave few strings tied, going by a sample."""
    each = max(1, rows // _SAMPLE)
    sample = np.arange(0, rows - each + 1, each)[:_SAMPLE]
    sample = sample + np.random.default_rng(0).integers(0, each, len(sample))  # one row of each stratum
    there = gpus.take_strings(strings, gpus.bring(sample.astype(np.uint32)))
    most = min(extent.words, _MOST_SAMPLED_WORDS)
    shares = _shares_tied(_words_of(gpus, there, extent.begin, most), len(sample), rows)
    return next((number for number, share in enumerate(shares, 1) if share <= _MOST_TIED), most)


def _words_of(gpus: GpuColumns, strings: Strings, begin: int, most: int) -> Iterator[Array]:
    """The words of strings, in host memory."""
    for done in range(0, most, _WORDS_AT_ONCE):
        extent = TextExtent(begin + done * int(_core.BYTES_OF_WORD), min(most - done, _WORDS_AT_ONCE))
        yield from gpus.fetch(gpus.words(strings, extent, None))


def _shares_tied(words: Iterable[Array], sampled: int, rows: int) -> Iterator[float]:
    """The share of so many strings that is tied after each word, going by the words of a sample.

    Three that are tied in the sample stand for a value that is frequent, and as many of all strings have it. Two stand
    for values of which all are as frequent as chance has it: n strings of m such values have n²/2m pairs.
    """
    going, group = np.arange(sampled), np.zeros(sampled, np.int64)
    for column in words:
        word = column[going]
        order = np.lexsort((word, group))
        word, group = word[order], group[order]
        starts = np.ones(len(order), bool)
        starts[1:] = (word[1:] != word[:-1]) | (group[1:] != group[:-1])
        number = np.cumsum(starts) - 1
        sizes: npt.NDArray[Any] = np.bincount(number, minlength=1)[number]
        is_tied = (sizes > 1) & (word & np.uint64(0xFF) == _GOES_ON)
        going, group, sizes = going[order][is_tied], number[is_tied], sizes[is_tied]
        yield float((sizes > 2).sum() / sampled + min(1.0, (sizes == 2).sum() * rows / sampled**2))
