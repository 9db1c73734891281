"""`sluice.batches`: a loop over what one node of a graph sends."""

import atexit
import ctypes
import hashlib
import json
import logging
import operator
import os
import threading
import weakref
from collections.abc import Mapping

from . import _errors, _library

_log = logging.getLogger("sluice")
_open = weakref.WeakSet()
_program_ends = False


@atexit.register
def _close_all():
    global _program_ends
    _program_ends = True
    for loader in list(_open):
        loader.close()


def _renew_locks():
    for loader in _open:
        loader._lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_locks)  # what another thread held would stay held in the child


def _plain(value):
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # of numpy or torch
        return value.tolist()
    raise TypeError(f"{value!r} is no value of a graph: it has the type {type(value).__name__}")


def to_json(value, **how):
    """Paths, and numbers and arrays of numpy and torch, as what they stand for."""
    return json.dumps(value, default=_plain, **how)


def overrides(settings):
    """{"vars.root": "/data"} as the command line's --set."""
    if not isinstance(settings or {}, Mapping):
        raise TypeError(f'set is no dict, as {{"vars.root": "/data"}} is: it has the type {type(settings).__name__}')
    return [f"{path}={to_json(value)}" for path, value in (settings or {}).items()]


def files(graph):
    """The names of a graph's files: of one path, or a list of them."""
    names = [os.fsdecode(f) for f in (graph if isinstance(graph, (list, tuple)) else [graph])]
    if not names:
        raise ValueError("no graph is named")
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(f"the name {name!r} is no UTF-8") from None
    return names


def _count(name, value, least, most):
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is a whole number, not {value!r}") from None
    if not least <= number <= most:
        raise ValueError(f"{name} is {least} to {most}, not {number}")
    return number


def _steps_of(state):
    """How many batches a loop had taken that asked for the state."""
    if state is None:
        return 0
    if not isinstance(state, Mapping):
        raise TypeError(f"this is no state of a loader: it has the type {type(state).__name__}")
    return _count('this is no state of a loader: "step"', state.get("step", 0), 0, (1 << 64) - 1)


class _Handle(ctypes.c_void_p):
    """A batch in C, which is freed with the last object that holds this."""

    def __init__(self, lib):
        super().__init__()
        self._lib = lib

    def __del__(self):
        if self.value:
            self._lib.sluice_free(self)


class _Coming:
    """What the loop has not got yet: a batch or an epoch's end. An interrupt leaves it for the next call.

    `taken`: how many batches the loop has got.
    """

    def __init__(self, lib, taken):
        self.found, self.handle, self.batch, self.taken = ctypes.c_int(), _Handle(lib), None, taken


class Batch(dict):
    """Tensors by field. They are the loop's own: it may write to them and keep them.

    `epoch` and `index`: its place; `step`: how many the loop has taken with it. `name`, `names`,
    `paths` and `affines` say what it was made of: for each member of a batch, and for the last two by
    field; an affine is 4 rows of 4, voxel to RAS mm, or None.
    """

    def __init__(self, lib, handle, step):
        import torch

        super().__init__()
        self._lib, self._handle, self._about, self.step = lib, handle, None, step
        for i in range(lib.sluice_fields(handle)):
            if tensor := lib.sluice_tensor(handle, i):
                self[lib.sluice_field(handle, i).decode()] = torch.from_dlpack(
                    _library.capsule(tensor, b"dltensor", None)
                )
            elif what := lib.sluice_error():
                raise _errors.from_json(json.loads(what))

    def __reduce__(self):  # another process gets the tensors
        return (dict, (dict(self),))

    @property
    def _meta(self):
        if self._about is None:
            self._about = json.loads(self._lib.sluice_meta(self._handle))
        return self._about

    @property
    def epoch(self):
        return self._meta["epoch"]

    @property
    def index(self):
        return self._meta["index"]

    @property
    def name(self):
        return self._meta["name"]

    @property
    def paths(self):
        return {k: [m["path"] for m in members] for k, members in self._meta["fields"].items()}

    @property
    def affines(self):
        return {k: [m["affine"] for m in members] for k, members in self._meta["fields"].items()}

    @property
    def names(self):
        return self._meta["names"]

    def sha256(self):
        """What the node `digest` prints for the same sample."""
        import torch

        sums = hashlib.sha256()
        for name, tensor in self.items():
            t = tensor.detach().cpu().contiguous()
            extents = ",".join(map(str, t.shape))
            kind = str(t.dtype).removeprefix("torch.")
            sums.update(f"{name} {kind}{' ' if extents else ''}{extents}\n".encode())
            if t.numel():
                sums.update(t.reshape(-1).view(torch.uint8).numpy())
        return sums.hexdigest()


class Profile(dict):
    """What limits, and each node's measures, as a run's profile.json. As text: a table."""

    def __str__(self):
        rows = [("node", "fired", "rate/s", "busy", "starved", "blocked", "p50 ms", "p95 ms")]
        for name, n in self["nodes"].items():
            rows.append(
                (name, str(n["items"]), f"{n['rate']:.1f}")
                + tuple(f"{n[k]:.0%}" for k in ("busy", "starved", "blocked"))
                + tuple(f"{n[k]:.3f}" for k in ("p50_ms", "p95_ms"))
            )
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [self["verdict"], ""]
        for row in rows:
            lines.append(row[0].ljust(widths[0]) + "".join(f"  {c.rjust(w)}" for c, w in zip(row[1:], widths[1:])))
        return "\n".join(lines)


class Loader:
    """An iterator over all epochs; `for batch in loader.epoch()` is over the rest of one.

    It goes on where it stands: a loop that was left and one that begins again see each batch once.
    One thread at a time uses it, in the process that made it; `close()` may come from any. That, the
    end of a `with` block, and the program's end stop its threads.
    """

    def __init__(self, request, taken=0):
        self._lib = _library.load()
        self._request, self._handle, self._process = request, None, os.getpid()
        self._coming = _Coming(self._lib, taken)
        self._lock, self._closing = threading.RLock(), False  # held by whoever is in a C function of the handle
        self._handle = self._opened(request)
        _open.add(self)

    def _opened(self, request):
        handle = self._lib.sluice_open(to_json(request).encode())
        self._say()
        if not handle:
            raise _errors.from_json(json.loads(self._lib.sluice_error()))
        return handle

    def _say(self):
        if said := self._lib.sluice_messages():
            for line in said.decode().splitlines():
                level = logging.INFO if line.startswith("note:") else logging.WARNING
                _log.log(level, line)

    def _require_open(self):
        if os.getpid() != self._process:
            raise _errors.Error(
                f"this loader was opened before the fork, in process {self._process}: open one in each process"
            )
        if not self._handle or self._closing:
            if _program_ends and threading.current_thread() is not threading.main_thread():
                raise SystemExit  # a daemon thread ends with the program, without a word
            raise ValueError("the loader is closed")

    # An interrupt may come between any two calls: until the loop gets a batch, it is in _coming, and
    # one assignment counts it and makes room for the next.
    def _take(self):
        while True:  # Python's signals are looked at in between, and others may close it
            with self._lock:
                self._require_open()
                coming = self._coming
                if coming.found.value < 1:
                    self._lib.sluice_next(self._handle, 100, coming.found, coming.handle)
                found = coming.found.value
                if found < 0:
                    error = _errors.from_json(json.loads(self._lib.sluice_error()))
                if found == 1:
                    if coming.batch is None:
                        coming.batch = Batch(self._lib, coming.handle, coming.taken + 1)
                    self._lib.sluice_taken(coming.handle)
            self._say()
            if found < 0:
                raise error
            with self._lock:
                if found > 0 and self._coming is coming:  # else another thread has taken it
                    self._coming = _Coming(self._lib, coming.taken + (found == 1))
                    return coming.batch if found == 1 else found

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            found = self._take()
            if found == 3:
                raise StopIteration
            if found != 2:
                return found

    def epoch(self):
        """The rest of the epoch that has begun."""
        while isinstance(found := self._take(), Batch):
            yield found

    @property
    def step(self):
        """How many batches were taken, with those of a state that was loaded."""
        return self._coming.taken

    def state_dict(self):
        """Where the loop stands: what it has taken, whatever was prefetched. Plain values."""
        with self._lock:
            self._require_open()
            state = json.loads(self._lib.sluice_state(self._handle))
            state["batch"] -= bool(self._coming.handle.value)
            return state | {"step": self._coming.taken}

    def load_state_dict(self, state, force=False):
        """Goes on behind what a loop had taken when it asked for the state.

        Another graph would mean other batches, so it is refused by name of what differs, and the
        loader stays as it was; `force` goes on all the same. The epoch's data up to there is prepared
        again.
        """
        if state is None:
            raise TypeError("this is no state of a loader: None")
        step, request = _steps_of(state), self._request | {"state": state, "force": force}
        handle = self._opened(request)
        self.close()
        self._handle, self._request, self._process = handle, request, os.getpid()
        self._coming = _Coming(self._lib, step)
        _open.add(self)

    def profile(self):
        """What limits and what each node does; "your loop" is a row. None before the first batch."""
        with self._lock:
            self._require_open()
            found = self._lib.sluice_profile(self._handle)
        return Profile(json.loads(found)) if found else None

    def close(self):
        """Stops its threads. A call that waits in another thread says within 0.1 s that it is closed."""
        self._closing = True
        with self._lock:
            handle, self._handle = self._handle, None
            self._coming = _Coming(self._lib, self._coming.taken)
            if handle and os.getpid() == self._process:
                self._lib.sluice_close(handle)
                self._say()
        self._closing = False

    def __reduce__(self):  # for copy and pickle: two would close one run
        raise TypeError("a loader cannot be copied; open one in each process")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()


def batches(graph, node, set=None, epochs=None, threads=None, prefetch=2, share=False, state=None):
    """A Loader over what `node` of a graph sends: "batch", "pre/norm", "split.label".

    graph: a file's path, a list of them that are merged left to right, or the graph as a dict.
    set: values that are others than in the file, {"vars.root": "/data"}. epochs: else `run.epochs`.
    threads: data threads, else `run.threads` or as many as cores. prefetch: how many batches may wait.
    share: hands tensors over without a copy also where a cache holds them; then nobody may write to
    them. state: what `state_dict()` gave.

    Raises GraphError with the text of `sluice check`; while it runs, DataError and the others.
    """
    if not isinstance(node, str):
        raise TypeError(f"node is the name of a node, not {node!r}")
    steps = _steps_of(state)
    request = {"node": node, "set": overrides(set), "share": share, "state": state}
    request["prefetch"] = _count("prefetch", prefetch, 1, 1 << 28)
    if isinstance(graph, dict):
        request |= {"graphs": ["graph"], "text": to_json(graph)}
    else:
        request["graphs"] = files(graph)
    if epochs is not None:
        request["set"].append(f"run.epochs={epochs}")
    if threads is not None:
        request["threads"] = _count("threads", threads, 0, 4096)
    return Loader(request, steps)
