"""Ray as the engine (Moritz et al., OSDI 2018): tasks, a store that spills, retries, and object reconstruction.

No other module imports Ray. Only the driver submits tasks: an object that a task puts into the store is lost with its
worker, while one that it returns is reconstructed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from linkwise._core import Error, OutOfMemoryError, UsageError
from linkwise.cluster.engine import Call, Handle, Worker
from linkwise.runtime.atomic_directory import AtomicDirectory
from linkwise.runtime.host_memory import host_memory

_RETRIES = 5  # of a call whose worker is lost
_SMALL = 2  # nodes with fewer than the largest one's cores / _SMALL are not used
_FREE = 0.9  # of free memory, for the workers of this machine and their store
_STORE = 0.3  # of that, for the store
_LAST_STARTED = Path("/tmp/ray/ray_current_cluster")
"""Where Ray notes the address of the cluster that was started last on this machine."""
_ANSWERS_WITHIN = 5.0  # seconds
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # how a client begins, RFC 9113 §3.4; Ray's heads speak gRPC
_SETTINGS = b"\x04"  # a type of frame, with which both sides begin
_TYPE_AT = 3  # in the head of a frame
_NO_SETTINGS = bytes(_TYPE_AT) + _SETTINGS + bytes(5)
_ENDS_WITHIN = 10.0  # seconds
_ABOUT_TO_END = 0.5  # seconds
_LONGEST = 14  # bytes of the temporary directory's path: paths of sockets in it are limited to 107


def _ray() -> Any:
    try:
        import ray  # noqa: PLC0415 - an optional dependency, which takes a second to load
    except ImportError:
        raise UsageError("a cluster needs Ray: pip install 'linkwise[ray]'") from None
    return ray


def _carry_out(call: Call) -> Iterator[Any]:
    """Run a call on a worker."""
    import ray  # noqa: PLC0415

    yield from call.values_with(lambda handles: ray.get(list(handles)))


def _carry_out_one(call: Call) -> Any:
    return next(_carry_out(call))


class RayEngine:
    """Runs calls as Ray tasks, each of which has a worker to itself. Ray must have been started."""

    def __init__(self, worker: Worker, workers: int) -> None:
        self._ray = _ray()
        self.worker, self.workers = worker, workers
        options: dict[str, Any] = {
            "num_cpus": worker.cores, "max_retries": _RETRIES, "scheduling_strategy": "SPREAD",
            "runtime_env": {"env_vars": {"OMP_NUM_THREADS": str(worker.threads)}},
        }  # fmt: skip
        if worker.gpus:  # keeps the process: by default Ray ends it after each call, and GPUs start anew
            options |= {"num_gpus": worker.gpus, "max_calls": 0}
        self._one = self._ray.remote(**options)(_carry_out_one)
        self._several = self._ray.remote(**options)(_carry_out)

    def submit(self, call: Call) -> list[Handle]:
        """See ``Engine``."""
        if call.values == 1:
            return [self._one.remote(call)]
        return list(self._several.options(num_returns=call.values).remote(call))

    def stream(self, call: Call) -> Iterator[Handle]:
        """See ``Engine``."""
        handles = self._several.options(num_returns="streaming").remote(call)
        while True:
            try:
                handle = next(handles)
            except StopIteration:
                return
            # An exception that a call raises also arrives as a handle.
            self._ray.wait([handle], fetch_local=False)
            yield handle

    def finished(self, handles: Sequence[Handle], seconds: float) -> list[Handle]:
        """See ``Engine``."""
        there, _ = self._ray.wait(list(handles), num_returns=1, timeout=seconds, fetch_local=False)
        if there:  # all others that are available, too
            there, _ = self._ray.wait(list(handles), num_returns=len(handles), timeout=0, fetch_local=False)
        return list(there)

    def value(self, handle: Handle) -> Any:
        """See ``Engine``."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(handle)
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, errors.RayError):
                raise self._told(cause) from None
            raise cause if isinstance(cause, Exception) else Error(_last_line(error)) from None
        except errors.RayError as error:
            raise self._told(error) from None

    def _told(self, error: Exception) -> Error:
        """What has befallen the cluster, in one line."""
        errors = self._ray.exceptions
        if isinstance(error, errors.OutOfMemoryError):
            return OutOfMemoryError(
                "a node's memory was exceeded again and again; give workers less with --host-memory"
            )
        if isinstance(error, errors.OutOfDiskError):
            return Error(
                "a node's disk is full, to which its object store spills; free some, or name another directory: of "
                "local:N with -T, of other clusters with Ray's object_spilling_directory"
            )
        return Error(f"the cluster has lost what it was working on: {_last_line(error)}")

    def cancel(self, handles: Sequence[Handle], *, wait: bool = False) -> None:
        """See ``Engine``."""
        if not handles:
            return
        with contextlib.suppress(Exception):  # they may have ended, or the cluster may be gone
            # Ray aborts this process if it cancels a call at the moment at which that ends (ray#54527), and two tries
            # of a call, or calls that fail for one reason, end together.
            _, running = self._ray.wait(
                list(handles), num_returns=len(handles), timeout=_ABOUT_TO_END, fetch_local=False
            )
            for handle in running:
                self._ray.cancel(handle, force=True)
            if wait:
                self._ray.wait(list(handles), num_returns=len(handles), timeout=_ENDS_WITHIN, fetch_local=False)


def _last_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


@contextmanager
def open_engine(address: str, memory: int | None, spill_to: Path | None = None) -> Iterator[RayEngine]:
    """Connect to the cluster at an address, or start one on this machine; ``memory``: bytes for a worker, if given.

    Addresses: ``"local:N"``, N workers of this machine; ``"auto"``, the cluster of which it is a node; ``"HOST:PORT"``.
    ``spill_to``: where the object store of ``"local:N"`` spills.
    """
    is_local = address.partition(":")[0] == "local"
    if is_local:
        _ask_for_a_token()  # before Ray is imported
    ray = _ray()
    if ray.is_initialized():  # by the program itself
        yield _engine_of_cluster(memory)
        return
    if is_local:
        with _local_cluster(address, memory, spill_to) as engine:
            yield engine
        return
    try:
        with _without_rays_log():
            _start(address=_reachable(address))
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"there is no cluster at '{address}' that takes this process: {_last_line(error)}; start one with 'ray "
            "start --head', give its token in RAY_AUTH_TOKEN if it has one, or take local:N"
        ) from None
    try:
        yield _engine_of_cluster(memory)
    finally:
        ray.shutdown()


def _reachable(address: str) -> str:
    """The address, if a head of Ray may answer there: Ray would retry for minutes. Raises ``ConnectionError``."""
    named = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    if named == "auto" and _LAST_STARTED.exists():
        named = _LAST_STARTED.read_text(encoding="utf-8").strip()
    host, _, port = named.rpartition(":")
    if "://" in named:
        raise ConnectionError(f"{named} is no HOST:PORT")
    if host and port.isdecimal():
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _ANSWERS_WITHIN) as connection:
                connection.sendall(_HTTP2 + _NO_SETTINGS)
                answer = connection.recv(len(_NO_SETTINGS))
        except OSError as error:
            raise ConnectionError(f"nobody answers at {named} ({error.strerror or error})") from None
        if answer[_TYPE_AT : _TYPE_AT + 1] != _SETTINGS:
            raise ConnectionError(f"what answers at {named} is not the head of a cluster, whose port is mostly 6379")
    return address


def _engine_of_cluster(memory: int | None) -> RayEngine:
    ray = _ray()
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    most = max((int(node.get("CPU", 0)) for node in nodes), default=0)
    if not most:
        raise UsageError("no node of the cluster has cores to work with")
    nodes = [node for node in nodes if node.get("CPU", 0) * _SMALL >= most]
    cores = min(int(node["CPU"]) for node in nodes)
    each = [int(node["CPU"]) // cores for node in nodes]
    gpus = min(int(node.get("GPU", 0)) // count for node, count in zip(nodes, each, strict=True))
    of_memory = min(int(node.get("memory", 0)) // count for node, count in zip(nodes, each, strict=True))
    store = min(int(node.get("object_store_memory", 0)) // count for node, count in zip(nodes, each, strict=True))
    return RayEngine(Worker(cores, cores, gpus, memory or of_memory, store), sum(each))


@contextmanager
def _local_cluster(address: str, memory: int | None, spill_to: Path | None) -> Iterator[RayEngine]:
    ray = _ray()
    count = address.removeprefix("local:")
    if not count.isdecimal() or not 1 <= int(count) <= 256:
        raise UsageError(f"'{address}': a cluster of this machine is local:4, for four workers")
    workers = int(count)
    free = int(host_memory("MemAvailable") * _FREE)
    in_all = min(free, workers * memory) if memory else free
    store = max(int(in_all * _STORE), 80 << 20)
    gpus = _gpus()
    with (
        _temporary_directory(_own_name(_short_directory())) as folder,
        _temporary_directory(_own_name(spill_to or Path(tempfile.gettempdir()), "-spilled")) as spilled,
    ):
        # Ray makes its own directories accessible to everybody; those around them are private to the user.
        _start(
            num_cpus=workers, num_gpus=gpus, object_store_memory=store, include_dashboard=False,
            _temp_dir=str(folder / "r"), object_spilling_directory=str(spilled / "r"),
        )  # fmt: skip
        try:
            threads = max((os.cpu_count() or 1) // workers, 1)
            of_memory = memory or (free - store) // workers
            yield RayEngine(Worker(1, threads, gpus // workers, of_memory, store // workers), workers)
        finally:
            ray.shutdown()


def _gpus() -> int:
    from linkwise.machines.local import local_machine  # noqa: PLC0415 - which looks for GPUs

    machine = local_machine()
    return 0 if machine is None else machine.num_gpus


def tables_of(dataset: Any) -> list[Handle]:
    """Handles of the blocks of a ``ray.data.Dataset``, as Arrow tables."""
    return list(dataset.to_arrow_refs())


def dataset_of(tables: list[Handle]) -> Any:
    """A ``ray.data.Dataset`` of such blocks."""
    import ray.data  # noqa: PLC0415

    return ray.data.from_arrow_refs(tables)


def temporary_targets() -> list[Path]:
    """The paths beside which a cluster of this machine keeps temporary directories; see ``AtomicDirectory``."""
    return [_own_name(_short_directory()), _own_name(Path(tempfile.gettempdir()), "-spilled")]


def _short_directory() -> Path:
    """The temporary directory, if its path is short enough for sockets."""
    folder = tempfile.gettempdir()
    return Path(folder if len(folder) <= _LONGEST else "/tmp")


def _own_name(directory: Path, what: str = "") -> Path:
    return directory / f"lw{os.getuid()}{what}"


@contextmanager
def _temporary_directory(beside: Path) -> Iterator[Path]:
    """A directory that only this user may read; those that dead drivers have left are removed first."""
    folder = AtomicDirectory(beside, force=True)
    try:
        folder.__enter__()
    except OSError as error:
        raise UsageError(f"cannot spill to {beside.parent}: {error.strerror}; name an existing directory") from None
    folder.path.chmod(0o700)
    try:
        yield folder.path
    finally:
        folder.discard()


def _ask_for_a_token() -> None:
    """Require a secret token for clusters of this process, since they listen on the network.

    Ray reads the variables when it is imported; if it is imported already, its authentication stays as it is. Older
    versions have no tokens.
    """
    names = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")
    if "ray" not in sys.modules and not any(name in os.environ for name in names):
        os.environ.update(zip(names, ("token", secrets.token_hex(32)), strict=True))


@contextmanager
def _without_rays_log() -> Iterator[None]:
    """Keep what Ray's core tells of each try to connect from standard error."""
    name = "RAY_BACKEND_LOG_LEVEL"
    if name in os.environ:
        yield
        return
    os.environ[name] = "fatal"
    try:
        yield
    finally:
        del os.environ[name]


def _start(**options: Any) -> None:
    """Start Ray without usage statistics, and restore the signal handler that it replaces."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    _ray().init(log_to_driver=False, logging_level=logging.ERROR, **options)
    if is_main:
        signal.signal(signal.SIGTERM, before)
