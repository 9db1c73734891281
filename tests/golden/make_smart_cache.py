"""Writes smart_cache.json: which items MONAI 1.6.1's SmartCacheDataset has in six epochs; and
smart_cache_parts.json: the same for each part of partition_dataset.

Run with a Python that has MONAI; the result is kept in the repository.
"""
import json
import pathlib

from monai.data import SmartCacheDataset, partition_dataset

folder = pathlib.Path(__file__).parent


def epochs_of(items, params):
    data = SmartCacheDataset([{"i": i} for i in items], None, progress=False, **params)
    data.start()
    epochs = []
    for _ in range(6):
        epochs.append([data[i]["i"] for i in range(len(data))])
        data.update_cache()
    data.shutdown()
    return epochs


def write(name, cases):
    text = ",\n".join(json.dumps(case) for case in cases)
    (folder / name).write_text(f"[{text}]\n")


cases = []
for n, num, rate, share, shuffle, seed in [
        (5, 4, 0.25, 1.0, False, 0), (5, 4, 0.25, 1.0, True, 0), (10, 6, 0.3, 1.0, True, 7),
        (7, 100, 0.1, 0.6, False, 0), (6, 6, 0.5, 1.0, True, 3), (12, 5, 0.5, 1.0, False, 0)]:
    params = {"cache_num": num, "replace_rate": rate, "cache_rate": share, "shuffle": shuffle,
              "seed": seed}
    cases.append({"items": n, "params": params, "epochs": epochs_of(range(n), params)})
write("smart_cache.json", cases)

cases = []
for n, shards, num, rate, shuffle, seed in [
        (40, 2, 30, 0.2, True, 0), (13, 4, 12, 0.5, True, 7), (11, 3, 8, 0.1, False, 0),
        (9, 4, 2, 0.5, True, 1)]:
    params = {"cache_num": max(1, num // shards), "replace_rate": rate, "shuffle": shuffle, "seed": seed}
    parts = partition_dataset(range(n), num_partitions=shards, shuffle=shuffle, seed=seed)
    cases.append({"items": n, "shards": shards, "params": params | {"cache_num": num},
                  "parts": [epochs_of(part, params) for part in parts]})
write("smart_cache_parts.json", cases)
