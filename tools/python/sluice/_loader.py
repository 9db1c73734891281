"""`sluice.batches`: a loop over what one node of a graph sends."""

import atexit
import ctypes
import hashlib
import json
import logging
import os
import pathlib
import weakref

from . import _errors, _library

_log = logging.getLogger("sluice")
_open = weakref.WeakSet()


@atexit.register
def _close_all():
    for loader in list(_open):
        loader.close()


def overrides(settings):
    """{"vars.root": "/data"} as the command line's --set."""
    return [f"{path}={json.dumps(value)}" for path, value in (settings or {}).items()]


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

    def __del__(self):
        self._lib.sluice_free(self._handle)

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
        for paths in self.paths.values():
            if all(paths):
                return [pathlib.PurePath(p).name.split(".")[0] for p in paths]
        return [self.name]

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
    One thread at a time uses it, in the process that made it. `close()`, the end of a `with` block,
    and the program's end stop its threads.
    """

    def __init__(self, request):
        self._lib = _library.load()
        self._request, self._handle, self._process = request, None, os.getpid()
        self._out, self._step = ctypes.c_void_p(), 0
        self._begin()

    def _begin(self):
        self._handle = self._lib.sluice_open(json.dumps(self._request).encode())
        self._say()
        if not self._handle:
            raise _errors.from_json(json.loads(self._lib.sluice_error()))
        _open.add(self)

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
        if not self._handle:
            raise ValueError("the loader is closed")

    # A batch that came as an interrupt did is kept in _out for the next call.
    def _take(self):
        self._require_open()
        found = 1 if self._out.value else 0
        while found == 0:  # Python's signals are looked at in between
            found = self._lib.sluice_next(self._handle, 100, ctypes.byref(self._out))
            self._say()
        if found == 1:
            handle, self._out.value = self._out.value, None
            self._step += 1
            return Batch(self._lib, handle, self._step)
        if found < 0:
            raise _errors.from_json(json.loads(self._lib.sluice_error()))
        return found

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
        return self._step

    def state_dict(self):
        """Where the loop stands: what it has taken, whatever was prefetched. Plain values."""
        self._require_open()
        state = json.loads(self._lib.sluice_state(self._handle))
        state["batch"] -= bool(self._out.value)
        return state | {"step": self._step}

    def load_state_dict(self, state, force=False):
        """Goes on behind what a loop had taken when it asked for the state.

        Another graph would mean other batches, so it is refused by name of what differs; `force`
        goes on all the same. The epoch's data up to there is prepared again.
        """
        self.close()
        self._process = os.getpid()
        self._step = state.get("step", 0)
        self._request |= {"state": state, "force": force}
        self._begin()

    def profile(self):
        """What limits and what each node does; "your loop" is a row. None before the first batch."""
        self._require_open()
        found = self._lib.sluice_profile(self._handle)
        return Profile(json.loads(found)) if found else None

    def close(self):
        if self._handle and os.getpid() == self._process:
            if self._out.value:
                self._lib.sluice_free(self._out)
                self._out.value = None
            self._lib.sluice_close(self._handle)
            self._say()
        self._handle = None

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
    request = {"node": node, "set": overrides(set), "prefetch": prefetch, "share": share, "state": state}
    if isinstance(graph, dict):
        request |= {"graphs": ["graph"], "text": json.dumps(graph)}
    else:
        files = graph if isinstance(graph, (list, tuple)) else [graph]
        request["graphs"] = [os.fspath(f) for f in files]
    if epochs is not None:
        request["set"].append(f"run.epochs={epochs}")
    if threads is not None:
        request["threads"] = threads
    loader = Loader(request)
    loader._step = (state or {}).get("step", 0)
    return loader
