"""Prints what TensorBoard's own reader finds in a folder, as JSON; exits 77 where it is absent."""
import json
import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as e:
    print(e, file=sys.stderr)
    sys.exit(77)

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "images": 0})
events.Reload()
tags = events.Tags()
print(json.dumps({
    "scalars": {t: [[e.step, e.value] for e in events.Scalars(t)] for t in tags["scalars"]},
    "images": {t: [[e.step, e.width, e.height, e.encoded_image_string[:4].hex()]
                   for e in events.Images(t)] for t in tags["images"]},
}))
