"""Batches of a Sluice graph in a training loop of one's own.

    import sluice

    loader = sluice.batches("graph.json", node="batch", set={"vars.root": "/data"}, epochs=30)
    for batch in loader:                      # a dict of torch tensors
        loss = criterion(model(batch["image"]), batch["label"])
        ...
        if loader.step % 100 == 0:
            torch.save({"data": loader.state_dict(), ...}, "checkpoint.pt")
    print(loader.profile())

The batches are those of `sluice run`, bit for bit, on any number of threads; a state that is loaded
goes on in the middle of an epoch. The graph is cut to what stands upstream of the node: what comes
after it (model, loss, optimizer, validation) is not run.
"""

from ._command import Diagnostic, check, dot, inspect, svg
from ._errors import (
    DataError,
    DeviceError,
    Error,
    FileError,
    GraphError,
    OutOfMemory,
    StalledError,
)
from ._loader import Batch, Loader, Profile, batches

__all__ = [
    "Batch",
    "DataError",
    "DeviceError",
    "Diagnostic",
    "Error",
    "FileError",
    "GraphError",
    "Loader",
    "OutOfMemory",
    "Profile",
    "StalledError",
    "batches",
    "check",
    "dot",
    "inspect",
    "svg",
]
