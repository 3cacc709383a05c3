"""CNN: the gradients of one training step of a convolutional network, by data, by model and by hybrid parallelism.

The work is divided as in Krizhevsky (2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Self

import numpy as np

from linkwise._typing import Array
from linkwise.apps.tartan.program import Answer, Fetched, Program, worst
from linkwise.messages.communicator import Arrays, Communicator
from linkwise.messages.pricing import Prices, Work
from linkwise.messages.schedules import even_cuts

_TAPS = tuple(product(range(3), repeat=2))


def convolved(xp: Any, images: Any, kernel: Any) -> Any:
    """Convolve images (batch, height, width, in) with a kernel (3, 3, in, out); two rows and columns are lost."""
    high, wide = images.shape[1] - 2, images.shape[2] - 2
    return sum(xp.matmul(images[:, i : i + high, j : j + wide, :], kernel[i, j, ...]) for i, j in _TAPS)


def kernel_slopes(xp: Any, images: Any, slopes: Any) -> Any:
    """The gradient of the kernel, from ``slopes``, the gradient of the outputs."""
    high, wide, flat = slopes.shape[1], slopes.shape[2], xp.reshape(slopes, (-1, slopes.shape[3]))
    parts = [xp.reshape(images[:, i : i + high, j : j + wide, :], (-1, images.shape[3])).T @ flat for i, j in _TAPS]
    return xp.reshape(xp.stack(parts), (3, 3, images.shape[3], slopes.shape[3]))


def pooled(xp: Any, field: Any) -> Any:
    """ReLU, then average pooling over two by two points."""
    above = xp.maximum(field, xp.zeros_like(field))
    batch, high, wide, channels = above.shape
    return xp.mean(xp.reshape(above, (batch, high // 2, 2, wide // 2, 2, channels)), axis=(2, 4))


def unpooled(xp: Any, slopes: Any, field: Any) -> Any:
    """The gradient through ``pooled``: of the average pooling and the ReLU."""
    wide = xp.repeat(xp.repeat(slopes, 2, axis=1), 2, axis=2) / 4
    return xp.where(field > 0, wide, xp.zeros_like(wide))


def loss_slopes(xp: Any, logits: Any, classes: Any) -> Any:
    """The gradient of the mean cross entropy; ``classes`` (batch, classes) is one-hot."""
    scaled = xp.exp(logits - xp.max(logits, axis=1, keepdims=True))
    return (scaled / xp.sum(scaled, axis=1, keepdims=True) - classes) / logits.shape[0]


@dataclass(frozen=True)
class ConvNet(Program):
    """A convolution, ReLU, average pooling over two by two points, and two dense layers."""

    batch: int
    side: int
    channels: int
    hidden: int
    inputs: int = 3
    classes: int = 10

    name, abbreviation, title = "convnet", "CNN", "convolutional network by data, model and hybrid parallelism"
    pattern, scales, copies_between_any_two = "peer to peer", "up", True

    @classmethod
    def small(cls) -> Self:
        """See ``Program``."""
        return cls(batch=24, side=10, channels=16, hidden=32)

    @classmethod
    def full(cls) -> Self:
        """See ``Program``."""
        return cls(batch=256, side=66, channels=64, hidden=2048, classes=1000)

    def grown(self, times: float) -> Self:
        """See ``Program``."""
        return replace(self, batch=max(round(self.batch * times), 1))

    @property
    def _features(self) -> int:
        return ((self.side - 2) // 2) ** 2 * self.channels

    def parameters(self) -> tuple[Array, Array, Array]:
        """The kernel, and the weights of both dense layers."""
        random = np.random.default_rng(self.hidden)
        shapes = (3, 3, self.inputs, self.channels), (self._features, self.hidden), (self.hidden, self.classes)
        kernel, first, second = (random.standard_normal(shape) / np.sqrt(np.prod(shape[:-1])) for shape in shapes)
        return kernel, first, second

    def samples(self) -> tuple[Array, Array]:
        """Images, and the class of each."""
        random = np.random.default_rng(self.batch)
        images = random.standard_normal((self.batch, self.side, self.side, self.inputs))
        return images, np.eye(self.classes)[random.integers(0, self.classes, self.batch)]

    def prepare(self, comm: Communicator) -> Any:
        """Parameters and samples, on every GPU."""
        made = *self.parameters(), *self.samples()
        return [[comm.from_host(rank, array) for rank in comm.local] for array in made]

    def run(self, comm: Communicator, prepared: Any) -> Answer:
        """See ``Program``."""
        found = {}
        for name, step in (("data", self._by_data), ("model", self._by_model), ("hybrid", self._by_hybrid)):
            for of, slopes in zip(("kernel", "first", "second"), step(comm, *prepared), strict=True):
                found[f"{name} {of}"] = slopes
        return found

    def _by_data(
        self, comm: Communicator, kernel: Arrays, first: Arrays, second: Arrays, images: Arrays, classes: Arrays
    ) -> tuple[Arrays, ...]:
        """Each GPU has all parameters and a part of the samples; gradients are added up."""
        xp, cuts = comm.xp, even_cuts(self.batch, comm.size)

        def gradients(rank: int, k: Any, w1: Any, w2: Any, image: Any, label: Any) -> Any:
            mine = slice(cuts[rank], cuts[rank + 1])
            image, label = image[mine, ...], label[mine, ...]
            field = convolved(xp, image, k)
            flat = xp.reshape(pooled(xp, field), (-1, self._features))
            before = flat @ w1
            hidden = xp.maximum(before, xp.zeros_like(before))
            out = loss_slopes(xp, hidden @ w2, label) * (image.shape[0] / self.batch)
            inner = xp.where(before > 0, out @ w2.T, xp.zeros_like(before))
            back = unpooled(xp, xp.reshape(inner @ w1.T, (-1, *[(self.side - 2) // 2] * 2, self.channels)), field)
            parts = kernel_slopes(xp, image, back), flat.T @ inner, hidden.T @ out
            return xp.concat([xp.reshape(part, (-1,)) for part in parts])

        mine = comm.each("gradients", gradients, kernel, first, second, images, classes)
        whole = comm.all_reduce("all gradients", mine)
        shapes = (3, 3, self.inputs, self.channels), (self._features, self.hidden), (self.hidden, self.classes)
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
        return tuple(
            [xp.reshape(each[int(begin) : int(end)], shape) for each in whole]
            for shape, begin, end in zip(shapes, ends, ends[1:], strict=False)
        )

    def _by_model(
        self, comm: Communicator, kernel: Arrays, first: Arrays, second: Arrays, images: Arrays, classes: Arrays
    ) -> tuple[Arrays, ...]:
        """Each GPU has all samples and a part of the channels, hidden units and classes."""
        xp, cuts = comm.xp, even_cuts(self.channels, comm.size)

        def channels_of(rank: int, k: Any, image: Any) -> Any:
            return convolved(xp, image, k[..., cuts[rank] : cuts[rank + 1]])

        fields = comm.each("some channels", channels_of, kernel, images)
        whole = shared(comm, "channels", comm.each("pool", lambda _rank, f: pooled(xp, f), fields), 3)
        flat = [xp.reshape(each, (self.batch, self._features)) for each in whole]
        back, w1, w2 = self._dense(comm, flat, first, second, classes)

        def slopes_of(rank: int, of_all: Any, field: Any, image: Any) -> Any:
            planes = xp.reshape(of_all, (self.batch, *[(self.side - 2) // 2] * 2, self.channels))
            return kernel_slopes(xp, image, unpooled(xp, planes[..., cuts[rank] : cuts[rank + 1]], field))

        return comm.each("some kernels", slopes_of, back, fields, images), w1, w2

    def _by_hybrid(
        self, comm: Communicator, kernel: Arrays, first: Arrays, second: Arrays, images: Arrays, classes: Arrays
    ) -> tuple[Arrays, ...]:
        """Data parallelism for the convolution (small kernel), model parallelism for dense layers (large weights)."""
        xp, cuts = comm.xp, even_cuts(self.batch, comm.size)
        mine = comm.each("part", lambda rank, each: each[cuts[rank] : cuts[rank + 1], ...], images)
        fields = comm.each("some samples", lambda _rank, k, image: convolved(xp, image, k), kernel, mine)
        whole = shared(comm, "samples", comm.each("pool", lambda _rank, f: pooled(xp, f), fields), 0)
        flat = [xp.reshape(each, (self.batch, self._features)) for each in whole]
        back, w1, w2 = self._dense(comm, flat, first, second, classes)

        def slopes_of(rank: int, of_all: Any, field: Any, image: Any) -> Any:
            rows = of_all[cuts[rank] : cuts[rank + 1], :]
            planes = xp.reshape(rows, (-1, *[(self.side - 2) // 2] * 2, self.channels))
            return kernel_slopes(xp, image, unpooled(xp, planes, field))

        return comm.all_reduce("kernel", comm.each("some kernels", slopes_of, back, fields, mine)), w1, w2

    def _dense(
        self, comm: Communicator, flat: Arrays, first: Arrays, second: Arrays, classes: Arrays
    ) -> tuple[Arrays, Arrays, Arrays]:
        """Both dense layers by model parallelism: gradients of all features, and of this rank's weights."""
        xp = comm.xp
        units, labels = even_cuts(self.hidden, comm.size), even_cuts(self.classes, comm.size)
        mine = comm.each("part", lambda rank, w: w[:, units[rank] : units[rank + 1]], first)
        last = comm.each("part", lambda rank, w: w[:, labels[rank] : labels[rank + 1]], second)

        def above(_rank: int, f: Any, w: Any) -> Any:
            return xp.maximum(f @ w, xp.zeros((1, 1)))

        hidden = shared(comm, "hidden", comm.each("hidden units", above, flat, mine), 1)
        logits = shared(comm, "logits", comm.each("outputs", lambda _rank, h, w: h @ w, hidden, last), 1)
        out = comm.each("outputs", lambda _rank, each, label: loss_slopes(xp, each, label), logits, classes)
        out = comm.each("part", lambda rank, each: each[:, labels[rank] : labels[rank + 1]], out)
        of_last = comm.each("outputs", lambda _rank, h, o: h.T @ o, hidden, out)
        inner = comm.all_reduce("hidden slopes", comm.each("outputs", lambda _rank, o, w: o @ w.T, out, last))

        def kept(rank: int, slopes: Any, h: Any) -> Any:
            own = slice(units[rank], units[rank + 1])
            return xp.where(h[:, own] > 0, slopes[:, own], xp.zeros((1, 1)))

        inner = comm.each("part", kept, inner, hidden)
        of_first = comm.each("hidden units", lambda _rank, f, i: f.T @ i, flat, inner)
        back = comm.all_reduce("feature slopes", comm.each("hidden units", lambda _rank, i, w: i @ w.T, inner, mine))
        return back, of_first, of_last

    def prices(self, ranks: int) -> Prices:
        """See ``Program``."""
        batch, channels = -(-self.batch // ranks), -(-self.channels // ranks)
        points, features = (self.side - 2) ** 2, self._features
        convolution = 2 * 9 * self.inputs * points * self.batch * self.channels / ranks  # FLOPs of one pass
        image, field = 8 * self.inputs * self.side**2 * self.batch, 8 * points * self.batch * self.channels
        units = -(-self.hidden // ranks)
        layer = 2 * self.batch * features * self.hidden / ranks
        last = 2 * self.batch * self.hidden * self.classes / ranks
        weights = 8 * features * units
        return {
            "gradients": Work(
                (image + 4 * field) / ranks + 24 * features * self.hidden, 2 * convolution + 3 * layer + 3 * last
            ),
            "all gradients": 8
            * (9 * self.inputs * self.channels + features * self.hidden + self.hidden * self.classes),
            "some channels": Work(image + field / ranks, convolution),
            "some samples": Work((image + field) / ranks, convolution),
            "pool": Work(1.25 * field / ranks, field / 8 / ranks),
            "channels": 2 * self.batch * points * channels,  # a quarter of the points, 8 bytes each
            "samples": 8 * batch * features,
            "part": Work(16),  # a view
            "hidden units": Work(8 * self.batch * (features + units) + weights, layer),
            "hidden": 8 * self.batch * units,
            "outputs": Work(8 * self.batch * (self.hidden + self.classes), last),
            "logits": 8 * self.batch * -(-self.classes // ranks),
            "hidden slopes": 8 * self.batch * self.hidden,
            "feature slopes": 8 * self.batch * features,
            "some kernels": Work((image + 2 * field) / ranks, convolution),
            "kernel": 8 * 9 * self.inputs * self.channels,
        }

    def error(self, answer: Fetched) -> float:
        """Compare with one device's gradients, computed as sums over patches."""
        kernel, first, second = self.parameters()
        images, classes = self.samples()
        patches = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(1, 2))
        field = np.einsum("bhwcij,ijck->bhwk", patches, kernel)
        half = (self.side - 2) // 2
        flat = np.maximum(field, 0).reshape(self.batch, half, 2, half, 2, -1).mean((2, 4)).reshape(self.batch, -1)
        before = flat @ first
        hidden = np.maximum(before, 0)
        logits = hidden @ second
        out = (np.exp(logits) / np.exp(logits).sum(1, keepdims=True) - classes) / self.batch
        inner = (out @ second.T) * (before > 0)
        back = (inner @ first.T).reshape(self.batch, half, half, -1)
        back = np.kron(back, np.ones((1, 2, 2, 1))) / 4 * (field > 0)
        right = {
            "kernel": np.einsum("bhwcij,bhwk->ijck", patches, back), "first": flat.T @ inner, "second": hidden.T @ out
        }  # fmt: skip
        shares = []
        for name, parts in answer.items():
            mode, of = name.split()
            wanted = right[of]
            allowed = 1e-12 * float(np.abs(wanted).max()) * self.batch
            is_divided = mode == "model" or (mode == "hybrid" and of != "kernel")
            for each in [np.concatenate(parts, axis=-1)] if is_divided else parts:
                shares.append(float(np.abs(each - wanted).max()) / allowed)
        return worst(*shares)


def shared(comm: Communicator, label: str, parts: Arrays, axis: int) -> Arrays:
    """All ranks' parts, concatenated along an axis, on every GPU; each GPU sends its part to every other."""
    sent: Sequence[dict[int, Any]] = [dict.fromkeys(range(comm.size), part) for part in parts]
    received = comm.exchange(label, list(sent))
    return comm.joined(([got[rank] for rank in range(comm.size)] for got in received), axis)
