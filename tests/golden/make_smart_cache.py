"""Writes smart_cache.json: which items MONAI 1.6.1's SmartCacheDataset has in six epochs.

Run with a Python that has MONAI; the result is kept in the repository.
"""
import json
import pathlib

from monai.data import SmartCacheDataset

cases = []
for n, num, rate, share, shuffle, seed in [
        (5, 4, 0.25, 1.0, False, 0), (5, 4, 0.25, 1.0, True, 0), (10, 6, 0.3, 1.0, True, 7),
        (7, 100, 0.1, 0.6, False, 0), (6, 6, 0.5, 1.0, True, 3), (12, 5, 0.5, 1.0, False, 0)]:
    params = {"cache_num": num, "replace_rate": rate, "cache_rate": share, "shuffle": shuffle,
              "seed": seed}
    data = SmartCacheDataset([{"i": i} for i in range(n)], None, progress=False, **params)
    data.start()
    epochs = []
    for _ in range(6):
        epochs.append([data[i]["i"] for i in range(len(data))])
        data.update_cache()
    data.shutdown()
    cases.append({"items": n, "params": params, "epochs": epochs})
text = ",\n".join(json.dumps(case) for case in cases)
(pathlib.Path(__file__).parent / "smart_cache.json").write_text(f"[{text}]\n")
