"""What can go wrong, one class for each exit code of the command line, with its text."""


class Error(RuntimeError):
    exit = 1


class GraphError(Error):
    """The graph, or what was asked of it. `diagnostics`: as `sluice check --json` lists them."""

    exit = 2
    diagnostics = ()


class DataError(Error):
    """A sample that cannot be used. `sample`: its name; `node`: where it failed."""

    exit = 3
    sample = node = ""


class FileError(Error):
    """A file that cannot be read or written."""

    exit = 4
    sample = node = ""


class OutOfMemory(Error, MemoryError):
    exit = 5


class DeviceError(Error):
    exit = 6


class StalledError(Error):
    """No sample has moved for `run.watchdog_s`; the text says who waits for what."""

    exit = 7


_BY_EXIT = {c.exit: c for c in (GraphError, DataError, FileError, OutOfMemory, DeviceError, StalledError)}


def from_json(found):
    error = _BY_EXIT.get(found.get("exit"), Error)(found.get("text", "unknown error").rstrip())
    for name in ("diagnostics", "node", "sample"):
        if name in found:
            setattr(error, name, found[name])
    return error
