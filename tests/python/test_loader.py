"""`import sluice`: the same batches as `sluice run`, resume in mid-epoch, and the manners of a guest."""

import contextlib
import copy
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref

import numpy
import torch

import sluice

GRAPH = {
    "run": {"epochs": 2, "seed": 3, "step_threads": 1},
    "models": {
        "net": {"type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2, "channels": [2, 4], "strides": [2]}
    },
    "nodes": {
        "train": {
            "type": "synthetic", "num_samples": 9, "spatial_size": [16, 16, 16], "rad_max": 6, "rad_min": 3,
            "num_seg_classes": 1, "shuffle": True,
        },
        "kept": {"type": "cache", "in": "train"},
        "crop": {
            "type": "rand_crop_by_pos_neg_label", "in": "kept", "label_key": "label", "spatial_size": [8, 8, 8],
            "num_samples": 2,
        },
        "mix": {"type": "shuffle", "in": "crop", "window": 4},
        "flip": {"type": "rand_flip", "in": "mix", "prob": 0.5},
        "noise": {"type": "rand_gaussian_noise", "in": "flip", "prob": 0.5},
        "batch": {"type": "batch", "in": "noise", "size": 4},
        "fwd": {"type": "model", "in": "batch", "net": "net"},
        "loss": {"type": "dice_ce_loss", "in": "fwd", "to_onehot_y": True, "softmax": True},
        "step": {"type": "adam", "in": "loss", "net": "net"},
        "val": {
            "type": "synthetic", "num_samples": 2, "spatial_size": [16, 16, 16], "rad_max": 6, "rad_min": 3,
            "num_seg_classes": 1, "after": "step",
        },
        "infer": {"type": "sliding_window", "in": "val", "net": "net", "roi_size": [16, 16, 16]},
        "dice": {"type": "dice_metric", "in": "infer"},
    },
}  # fmt: skip


def graph(**nodes):
    found = copy.deepcopy(GRAPH)
    found["nodes"] |= nodes
    return found


def digests(loader):
    return [(b.epoch, b.index, b.sha256()) for b in loader]


def command(*words, cwd=None):
    from sluice import _library

    return subprocess.run([_library.binary(), *words], capture_output=True, text=True, cwd=cwd, timeout=60)


@contextlib.contextmanager
def working_in(folder):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def python(code, *words, **more):
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60, **more)


class SameBatches(unittest.TestCase):
    def test_any_number_of_threads_gives_the_batches_of_sluice_run(self):
        expected = None
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "g.json")
            with open(file, "w") as out:
                json.dump(graph(sums={"type": "digest", "in": "batch"}), out)
            run = command("run", file, "--quiet", "--no-out")
            self.assertEqual(run.returncode, 0, run.stderr)
            expected = [
                (int(epoch), int(index), sha256) for epoch, index, sha256, _ in
                (line.split(" ", 3) for line in run.stdout.splitlines())
            ]  # fmt: skip
        self.assertEqual(len(expected), 10)
        self.assertEqual(len({sha256 for _, _, sha256 in expected}), 10)
        for threads in (1, 2, 4):
            with sluice.batches(GRAPH, node="batch", threads=threads) as loader:
                self.assertEqual(digests(loader), expected)

    def test_a_validations_stream_runs_by_itself(self):
        with sluice.batches(GRAPH, node="val", epochs=1) as loader:
            self.assertEqual([b.index for b in loader], [0, 1])

    def test_other_settings_are_other_batches(self):
        with sluice.batches(GRAPH, node="batch") as a, sluice.batches(GRAPH, node="batch", set={"run.seed": 4}) as b:
            self.assertNotEqual(digests(a), digests(b))

    def test_an_epoch_at_a_time(self):
        with sluice.batches(GRAPH, node="batch") as loader:
            self.assertEqual([b.epoch for b in loader.epoch()], [0] * 5)
            self.assertEqual([b.epoch for b in loader.epoch()], [1] * 5)
            self.assertEqual(list(loader.epoch()), [])
            self.assertEqual(list(loader), [])
            self.assertEqual(loader.step, 10)

    def test_what_a_batch_says_of_its_samples(self):
        with sluice.batches(GRAPH, node="batch") as loader:
            batch = next(loader)
        self.assertEqual(set(batch), {"image", "label"})
        self.assertEqual((batch["image"].shape, batch["image"].dtype), ((4, 1, 8, 8, 8), torch.float32))
        self.assertEqual((batch.epoch, batch.index, batch.step), (0, 0, 1))
        self.assertEqual(len(batch.affines["image"]), 4)
        self.assertTrue(batch.name)

    def test_the_members_of_a_batch_have_their_samples_names(self):
        names = ["1.2.840.113", "1.2.840.114", "scan.v2"]
        nodes = {
            "files": {"type": "file_list", "root": ".", "pattern": "*.npy"},
            "load": {"type": "load_image", "in": "files", "keys": "image"},
            "batch": {"type": "batch", "in": "load", "size": 3},
        }
        with tempfile.TemporaryDirectory() as folder, working_in(folder):
            for name in names:
                numpy.save(name + ".npy", numpy.zeros((1, 2, 2, 2), numpy.float32))
            self.assertEqual([b.name for b in sluice.batches({"nodes": nodes}, "load")], names)
            self.assertEqual([b.names for b in sluice.batches({"nodes": nodes}, "batch")], [names])
            self.assertEqual([b.names for b in sluice.batches({"nodes": nodes}, "load")], [[n] for n in names])

    def test_members_that_have_no_file_or_one_together_are_named_each(self):
        synthetic = {"train": GRAPH["nodes"]["train"] | {"shuffle": False}, "batch": {"type": "batch", "in": "train", "size": 5}}
        made = [b.names for b in sluice.batches({"nodes": synthetic}, "batch", epochs=1)]
        self.assertEqual(made, [[f"synthetic_{n}" for n in range(5)], [f"synthetic_{n}" for n in range(5, 9)]])


class Resume(unittest.TestCase):
    def test_a_state_goes_on_in_the_middle_of_an_epoch(self):
        with sluice.batches(GRAPH, node="batch") as loader:
            whole = digests(loader)
        for taken in range(11):
            with sluice.batches(GRAPH, node="batch", prefetch=3) as loader:
                for _ in range(taken):
                    next(loader)
                state = json.loads(json.dumps(loader.state_dict()))
            with sluice.batches(GRAPH, node="batch", threads=1 + taken % 2, state=state) as loader:
                self.assertEqual(digests(loader), whole[taken:], taken)
                self.assertEqual(loader.step, 10)

    def test_a_loader_may_go_back(self):
        with sluice.batches(GRAPH, node="batch") as loader:
            next(loader)
            state = loader.state_dict()
            rest = digests(loader)
            loader.load_state_dict(state)
            self.assertEqual(digests(loader), rest)

    def test_after_kill_9_the_rest_is_what_it_would_have_been(self):
        code = (
            "import json, os, sys, sluice\n"
            "graph, file, again = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3] == 'again'\n"
            "state = json.load(open(file)) if again else None\n"
            "for b in (loader := sluice.batches(graph, node='batch', state=state)):\n"
            "    print(b.epoch, b.index, b.sha256(), flush=True)\n"
            "    if b.step == 7 and not again:\n"
            "        json.dump(loader.state_dict(), open(file, 'w'))\n"
            "    if b.step == 8 and not again: os.kill(os.getpid(), 9)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, "-c", code, json.dumps(GRAPH), os.path.join(folder, "state.json")]
            first = subprocess.run([*words, "first"], capture_output=True, text=True, timeout=60)
            self.assertEqual(first.returncode, -9, first.stderr)
            second = subprocess.run([*words, "again"], capture_output=True, text=True, timeout=60)
            self.assertEqual(second.returncode, 0, second.stderr)
        with sluice.batches(GRAPH, node="batch") as loader:
            whole = [f"{e} {i} {s}" for e, i, s in digests(loader)]
        self.assertEqual(first.stdout.splitlines(), whole[:8])
        self.assertEqual(second.stdout.splitlines(), whole[7:])

    def test_another_graph_is_refused_by_name(self):
        with sluice.batches(GRAPH, node="batch") as loader:
            next(loader)
            state = loader.state_dict()
        other = {"nodes.flip.prob": 0.25, "nodes.train.num_samples": 8}
        with self.assertRaises(sluice.GraphError) as caught:
            sluice.batches(GRAPH, node="batch", set=other, state=state)
        self.assertIn("nodes.flip.prob: 0.5 -> 0.25", str(caught.exception))
        self.assertIn("nodes.train.num_samples: 9 -> 8", str(caught.exception))
        # What is cut off, and how many threads there are, makes no difference to batches.
        fine = {"nodes.step.lr": 0.5, "run.threads": 1, "run.epochs": 3}
        sluice.batches(GRAPH, node="batch", set=fine, state=state).close()
        with sluice.batches(GRAPH, node="batch", set=other) as loader:
            loader.load_state_dict(state, force=True)
            next(loader)

    def test_a_state_that_is_refused_leaves_the_loader_as_it_was(self):
        with sluice.batches(GRAPH, node="batch") as loader:
            whole = digests(loader)
        with sluice.batches(GRAPH, node="batch", set={"nodes.flip.prob": 0.25}) as other:
            next(other)
            state = other.state_dict()
        with sluice.batches(GRAPH, node="batch") as loader:
            first = next(loader)
            with self.assertRaises(sluice.GraphError):
                loader.load_state_dict(state)
            self.assertEqual(loader.step, 1)
            self.assertEqual([(first.epoch, first.index, first.sha256()), *digests(loader)], whole)

    def test_a_state_that_is_none_or_says_more_than_an_epoch_holds_is_refused(self):
        with sluice.batches(GRAPH, node="batch") as loader:
            state = loader.state_dict()
        for wrong in ({"batch": -1}, {"epoch": -1}, {"batch": 1.5}, {"epoch": None}, {"epoch": 2**32}):
            with self.assertRaisesRegex(sluice.GraphError, f'no state of a loader: "{next(iter(wrong))}"'):
                sluice.batches(GRAPH, node="batch", state=state | wrong)
        for error, wrong in ((TypeError, "x"), (TypeError, 1.5), (TypeError, None), (ValueError, -1)):
            with self.assertRaisesRegex(error, 'no state of a loader: "step" is '):
                sluice.batches(GRAPH, node="batch", state=state | {"step": wrong})
            with sluice.batches(GRAPH, node="batch") as loader:
                with self.assertRaisesRegex(error, 'no state of a loader: "step" is '):
                    loader.load_state_dict(state | {"step": wrong})
        beyond = "epoch {} was begun, and the last one is epoch 1: run.epochs is 2"
        for wrong in ({"epoch": 7}, {"epoch": 2, "batch": 1}):
            with self.assertRaisesRegex(sluice.GraphError, beyond.format(wrong["epoch"])):
                sluice.batches(GRAPH, node="batch", state=state | wrong)
        self.assertEqual(list(sluice.batches(GRAPH, node="batch", state=state | {"epoch": 2})), [])
        with sluice.batches(GRAPH, node="batch", state=state | {"batch": 5}) as loader:
            self.assertEqual(len(list(loader.epoch())), 0)
            self.assertEqual(len(list(loader.epoch())), 5)
        with sluice.batches(GRAPH, node="batch", state=state | {"batch": 6}) as loader:
            with self.assertRaisesRegex(sluice.GraphError, "6 were taken of epoch 0, which has only 5"):
                next(loader)
            loader.load_state_dict(state | {"batch": 6}, force=True)
            self.assertEqual(next(loader).epoch, 1)


class Arguments(unittest.TestCase):
    def test_paths_and_numbers_of_numpy_are_values(self):
        made = graph(train=GRAPH["nodes"]["train"] | {"num_samples": "@n"}) | {"vars": {"n": 9}}
        some = {
            "vars.n": numpy.int64(8), "nodes.flip.prob": numpy.float32(0.25),
            "nodes.crop.spatial_size": torch.tensor([8, 8, 8]),
        }  # fmt: skip
        with sluice.batches(made, "batch", set=some, epochs=numpy.int64(1), threads=numpy.int64(1)) as loader:
            self.assertEqual(len(list(loader)), 4)
        files = {"nodes": {"files": {"type": "file_list", "root": "", "pattern": "*"}}}
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "a.nii").write_text("")
            with sluice.batches(files, "files", set={"nodes.files.root": pathlib.Path(folder)}) as loader:
                self.assertEqual([b.name for b in loader], ["a"])
        with self.assertRaisesRegex(TypeError, "is no value of a graph"):
            sluice.batches(made, "batch", set={"vars.n": object()})

    def test_settings_and_states_that_are_no_dicts_are_refused(self):
        for wrong in ("vars.n=1", ["vars.n=1"]):
            with self.assertRaisesRegex(TypeError, "set is no dict"):
                sluice.batches(GRAPH, "batch", set=wrong)
        with sluice.batches(GRAPH, "batch") as loader:
            for wrong in (None, [], "state"):
                with self.assertRaisesRegex(TypeError, "no state of a loader"):
                    loader.load_state_dict(wrong)
        with self.assertRaisesRegex(TypeError, "no state of a loader: it has the type list"):
            sluice.batches(GRAPH, "batch", state=[])

    def test_a_node_that_is_no_name_is_refused(self):
        for wrong in (None, 3, ["batch"], b"batch"):
            with self.assertRaisesRegex(TypeError, "node is the name of a node, not "):
                sluice.batches(GRAPH, wrong)

    def test_numbers_that_count_nothing_are_refused(self):
        for error, wrong in (
            (ValueError, {"threads": -3}), (TypeError, {"threads": 1.7}), (TypeError, {"threads": "2"}),
            (ValueError, {"prefetch": 0}), (TypeError, {"prefetch": 1.9}), (ValueError, {"threads": 2**32 + 1}),
            (ValueError, {"prefetch": 2**63}),
        ):  # fmt: skip
            with self.assertRaisesRegex(error, next(iter(wrong))):
                sluice.batches(GRAPH, "batch", **wrong)

    def test_any_name_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder, working_in(folder):
            for name in ("-g.json", "-", "--json", "g \u00fc.json"):
                pathlib.Path(name).write_text(json.dumps(GRAPH))
                self.assertEqual([d.code for d in sluice.check(name)], [d.code for d in sluice.check(GRAPH)])
                self.assertIn("digraph", sluice.dot(pathlib.Path(name)))
                with sluice.batches(name, "batch") as loader:
                    next(loader)
        for ask in (sluice.check, sluice.dot, lambda name: sluice.batches(name, "batch")):
            with self.assertRaisesRegex(ValueError, "no UTF-8"):
                ask(os.fsdecode(b"n\xff.json"))

    def test_no_graph_at_all_is_refused(self):
        for ask in (sluice.check, sluice.dot, lambda none: sluice.batches(none, "batch")):
            with self.assertRaisesRegex(ValueError, "no graph"):
                ask([])

    def test_the_parts_of_a_dict_stand_in_the_current_folder(self):
        part = {"in": "i", "out": "f", "nodes": {"f": {"type": "rand_flip", "in": "i", "prob": 0.5}}}
        parted = graph(flip={"part": "p", "in": "mix"}) | {"parts": {"p": "part.json"}}
        with tempfile.TemporaryDirectory() as folder, working_in(folder):
            pathlib.Path("part.json").write_text(json.dumps(part))
            self.assertEqual([d for d in sluice.check(parted) if d.severity == "error"], [])
            self.assertIn("flip", sluice.dot(parted))
            self.assertIn('id="node0"', sluice.svg(parted))
            with sluice.batches(parted, "batch") as loader:
                next(loader)
        (wrong,) = sluice.check(parted | {"parts": {"p": "none.json"}})
        self.assertEqual((wrong.code, wrong.file), ("SL0108", "graph"))
        self.assertRegex(wrong.place, r"^graph:\d+:\d+$")


class Ownership(unittest.TestCase):
    def test_writing_to_a_batch_harms_neither_cache_nor_later_batches(self):
        plain = {k: GRAPH["nodes"][k] for k in ("train", "kept")}
        with sluice.batches({"nodes": plain}, node="kept", epochs=2) as loader:
            first = {}
            for b in loader.epoch():
                first[b.name] = b["image"].clone()
                b["image"].zero_()
            self.assertGreater(min(t.max().item() for t in first.values()), 0)
            for b in loader.epoch():
                self.assertTrue(torch.equal(b["image"], first[b.name]))

    def test_share_hands_over_what_the_cache_holds(self):
        plain = {k: GRAPH["nodes"][k] for k in ("train", "kept")}
        with sluice.batches({"nodes": plain}, node="kept", epochs=2, share=True) as loader:
            places = {b.name: b["image"].data_ptr() for b in loader.epoch()}
            self.assertEqual({b.name: b["image"].data_ptr() for b in loader.epoch()}, places)

    def test_tensors_do_all_that_tensors_do(self):
        with sluice.batches(GRAPH, node="batch") as loader:
            image = next(loader)["image"]
        before = image.clone()  # the loader is closed: the batch stays
        image.requires_grad_()
        (image * 2).sum().backward()
        self.assertTrue(torch.equal(image.grad, torch.full_like(image, 2)))
        self.assertTrue(torch.equal(torch.from_numpy(image.detach().numpy()), before))
        image.detach().add_(1)
        self.assertTrue(torch.equal(image.detach(), before + 1))

    def test_only_the_prefetched_are_kept(self):
        with sluice.batches(GRAPH, node="batch", epochs=50, prefetch=2) as loader:
            alive = weakref.WeakSet()
            for batch in loader:
                alive.add(batch["image"])
                self.assertLessEqual(len(alive), 2)  # this one, and the one before until here


class Guest(unittest.TestCase):
    def test_settings_of_the_process_stay(self):
        torch.set_num_threads(3)
        handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

        def signals():
            with open("/proc/self/status") as lines:
                return [line for line in lines if line.startswith(("SigCgt", "SigIgn", "SigBlk"))]

        before = signals()
        cudnn = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
        nice = os.nice(0)
        seed = torch.initial_seed()
        with sluice.batches(GRAPH, node="batch", threads=2) as loader:
            next(loader)
            self.assertEqual(signals(), before)
            list(loader)
        found = []
        other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        other.start()
        other.join()
        self.assertEqual((torch.get_num_threads(), found), (3, [3]))
        self.assertEqual({s: signal.getsignal(s) for s in handlers}, handlers)
        self.assertEqual((torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark), cudnn)
        self.assertEqual((os.nice(0), torch.initial_seed(), torch.is_grad_enabled()), (nice, seed, True))

    def test_ctrl_c_comes_through_while_it_waits(self):
        made = {"spatial_size": [16, 16, 16], "rad_max": 4, "rad_min": 2, "num_objs": 1}
        slow = {  # many short firings before the first batch
            "nodes": {
                "train": {"type": "synthetic", "num_samples": 10**6, **made},
                "batch": {"type": "batch", "in": "train", "size": 10**6},
            }
        }
        code = (
            "import json, os, signal, sys, threading, time, sluice\n"
            "loader = sluice.batches(json.loads(sys.argv[1]), node='batch')\n"
            "def interrupt():\n"
            "    global sent; sent = time.monotonic(); os.kill(os.getpid(), signal.SIGINT)\n"
            "threading.Timer(0.2, interrupt).start()\n"
            "try: next(loader); print('too quick')\n"
            "except KeyboardInterrupt: print(time.monotonic() - sent)\n"
        )
        done = subprocess.run([sys.executable, "-c", code, json.dumps(slow)], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(float(done.stdout), 2)  # 0.1 s on a machine of its own

    def test_a_child_of_fork_opens_a_loader_whatever_ran_on_its_parents_threads(self):
        code = (
            "import json, multiprocessing, sys, torch, sluice\n"
            "graph = json.loads(sys.argv[1])\n"
            "def count(queue):\n"
            "    queue.put([len(list(sluice.batches(graph, node, epochs=1))) for node in ('batch', 'kept')])\n"
            "if sys.argv[2] == 'torch': torch.ones(1 << 20).exp()\n"
            "if sys.argv[2] == 'loader': print(len([next(sluice.batches(graph, n)) for n in ('batch', 'kept')]))\n"
            "fork = multiprocessing.get_context('fork')\n"
            "queue = fork.Queue()\n"
            "child = fork.Process(target=count, args=(queue,))\n"
            "child.start()\n"
            "try: print(queue.get(timeout=20))\n"
            "finally: child.kill()\n"
        )
        large = graph(train=GRAPH["nodes"]["train"] | {"spatial_size": [40, 40, 40]})  # work for several threads
        for before in ("loader", "torch"):
            words = [sys.executable, "-c", code, json.dumps(large), before]
            done = subprocess.run(words, capture_output=True, text=True, timeout=60)
            self.assertTrue(done.stdout.endswith("[5, 9]\n"), (before, done.stdout, done.stderr))

    def test_a_child_of_fork_is_told_that_its_parent_has_an_open_loader(self):
        code = (
            "import json, os, sys, time, sluice\n"
            "graph = json.loads(sys.argv[1])\n"
            "loader = sluice.batches(graph, 'batch', epochs=1000)\n"
            "next(loader)\n"
            "time.sleep(0.3)  # its threads have filled the queues, and wait\n"
            "if (child := os.fork()) == 0:\n"
            "    try: print(len(list(sluice.batches(graph, 'batch', epochs=1))), flush=True)\n"
            "    except sluice.Error as e: print(e, flush=True)\n"
            "    os._exit(0)\n"
            "print(os.waitpid(child, 0)[1], len([next(loader) for _ in range(9)]))\n"
        )
        done = python(code, json.dumps(GRAPH))
        self.assertIn("child of fork(), and a loader was open in its parent", done.stdout, done.stderr)
        self.assertIn('"spawn" or "forkserver"', done.stdout)
        self.assertTrue(done.stdout.endswith("\n0 9\n"), (done.stdout, done.stderr))

    def test_a_fork_of_torchs_data_loader_is_told_so_too(self):
        code = (
            "import json, sys, torch, sluice\n"
            "graph = json.loads(sys.argv[1])\n"
            "class Batches(torch.utils.data.IterableDataset):\n"
            "    def __iter__(self):\n"
            "        for batch in sluice.batches(graph, 'batch', epochs=1): yield dict(batch)\n"
            "workers = lambda: torch.utils.data.DataLoader(Batches(), batch_size=None, num_workers=1,\n"
            "                                              multiprocessing_context='fork')\n"
            "with sluice.batches(graph, 'batch', epochs=1000) as loader:\n"
            "    next(loader)\n"
            "    try: print(len(list(workers())))\n"
            "    except Exception as e: print('Close the parent' in str(e))\n"
            "print(len(list(workers())))\n"
        )
        done = python(code, json.dumps(GRAPH))
        self.assertEqual(done.stdout, "True\n5\n", done.stderr)

    def test_a_fork_is_refused_in_words(self):
        with sluice.batches(GRAPH, node="batch") as loader:
            next(loader)
            read, write = os.pipe()
            if (child := os.fork()) == 0:
                try:
                    next(loader)
                    text = "nothing was wrong"
                except sluice.Error as e:
                    text = str(e)
                loader.close()
                os.write(write, text.encode())
                os._exit(0)
            os.close(write)
            self.assertIn("opened before the fork", os.read(read, 1000).decode())
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(len(list(loader)), 9)  # the parent goes on

    def test_the_interpreter_ends_with_a_loader_in_mid_epoch(self):
        for end in ("", "raise RuntimeError('mine')", "del loader"):
            code = (
                f"import json, sys, sluice\ngraph = json.loads({json.dumps(GRAPH)!r})\n"
                f"loader = sluice.batches(graph, node='batch', epochs=100)\nnext(loader)\n{end}\n"
            )
            done = python(code)
            self.assertEqual(done.returncode, 1 if "mine" in end else 0, done.stderr)
            self.assertEqual("RuntimeError: mine" in done.stderr, "mine" in end)
            if "mine" not in end:
                self.assertEqual(done.stderr, "")

    def test_a_loader_is_not_copied(self):
        with sluice.batches(GRAPH, node="batch") as loader:
            next(loader)
            for clone in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "cannot be copied; open one in each process"):
                    clone(loader)
            self.assertEqual(len(list(loader)), 9)

    def test_a_thread_that_waits_hears_that_another_closes_it(self):
        made = {"spatial_size": [16, 16, 16], "rad_max": 4, "rad_min": 2}
        slow = {
            "nodes": {
                "train": {"type": "synthetic", "num_samples": 10**6, **made},
                "batch": {"type": "batch", "in": "train", "size": 10**6},
            }
        }
        loader, said = sluice.batches(slow, node="batch"), []

        def take():
            try:
                next(loader)
            except ValueError as e:
                said.append(str(e))

        waits = threading.Thread(target=take)
        waits.start()
        time.sleep(0.3)
        loader.close()
        waits.join(20)
        self.assertEqual(said, ["the loader is closed"])

    def test_the_interpreter_ends_while_a_daemon_waits_for_a_batch(self):
        code = (
            f"import json, threading, time, sluice\ngraph = json.loads({json.dumps(GRAPH)!r})\n"
            "loader = sluice.batches(graph, node='batch', epochs=10**6)\n"
            "def take():\n    for _ in loader: pass\n"
            "threading.Thread(target=take, daemon=True).start()\ntime.sleep(0.5)\n"
        )
        for _ in range(5):
            done = python(code)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_an_interrupt_with_the_epochs_end_loses_nothing(self):
        with sluice.batches(GRAPH, node="batch") as loader:
            lib, interrupted = loader._lib, []

            class Interrupting:
                def __getattr__(self, name):
                    return getattr(lib, name)

                def sluice_next(self, handle, wait, found, out):
                    lib.sluice_next(handle, wait, found, out)
                    if found.value == 2 and not interrupted:
                        interrupted.append(True)
                        raise KeyboardInterrupt

            loader._lib = Interrupting()
            epochs = []
            with self.assertRaises(KeyboardInterrupt):
                for b in loader.epoch():
                    epochs.append(b.epoch)
            self.assertEqual(epochs, [0] * 5)
            self.assertEqual([b.epoch for b in loader.epoch()], [])
            self.assertEqual([b.epoch for b in loader.epoch()], [1] * 5)

    def test_an_interrupt_behind_any_call_loses_no_batch(self):
        with sluice.batches(GRAPH, node="batch") as loader:
            whole = digests(loader)

        class Interrupting:
            def __init__(self, lib, name, nth):
                self._lib, self._name, self._left = lib, name, nth

            def __getattr__(self, name):
                function = getattr(self._lib, name)
                if name != self._name:
                    return function

                def call(*arguments):
                    result = function(*arguments)
                    self._left -= 1
                    if self._left == 0:
                        raise KeyboardInterrupt
                    return result

                return call

        for name in ("next", "fields", "field", "tensor", "taken", "messages"):
            for nth in (1, 2):
                with sluice.batches(GRAPH, node="batch", prefetch=1) as loader:
                    first, interrupts, got = next(loader), 0, []
                    loader._lib = Interrupting(loader._lib, "sluice_" + name, nth)
                    while True:
                        try:
                            state = loader.state_dict()
                            self.assertEqual((state["step"], state["epoch"] * 5 + state["batch"]), (1 + len(got),) * 2)
                            got.append(next(loader))
                        except KeyboardInterrupt:
                            interrupts += 1
                        except StopIteration:
                            break
                    self.assertEqual(interrupts, 1, name)
                    self.assertEqual([(b.epoch, b.index, b.sha256()) for b in (first, *got)], whole, name)
                    self.assertEqual([b.step for b in (first, *got)], list(range(1, 11)), name)
                    self.assertEqual(loader.step, 10, name)

    def test_interrupts_at_any_moment_leave_the_count_right(self):
        code = (
            "import json, signal, sys, sluice\n"
            "loader = sluice.batches(json.loads(sys.argv[1]), 'batch', epochs=200, prefetch=4)\n"
            "got, interrupts, armed = 0, 0, False\n"
            "def interrupt(*_):\n"
            "    global armed\n"
            "    if not armed: return\n"
            "    armed = False\n"
            "    raise KeyboardInterrupt\n"
            "signal.signal(signal.SIGALRM, interrupt)\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)\n"
            "while True:\n"
            "    try:\n"
            "        armed = True\n"
            "        for batch in loader:\n"
            "            got += 1\n"
            "            armed = True  # a __del__ may have swallowed one\n"
            "        armed = False\n"
            "        break\n"
            "    except KeyboardInterrupt: interrupts += 1\n"
            "signal.setitimer(signal.ITIMER_REAL, 0)\n"
            "print(interrupts > 10, loader.step, loader.step - got)\n"
        )
        done = python(code, json.dumps(GRAPH))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("AttributeError", done.stderr)  # Python says where one came to a __del__
        many, step, lost = done.stdout.split()
        self.assertEqual((many, step), ("True", "1000"))
        self.assertLess(int(lost), 3)  # an interrupt may come behind the last instruction of `next`

    def test_two_loaders_at_once(self):
        with sluice.batches(GRAPH, node="batch") as alone:
            expected = digests(alone)
        with sluice.batches(GRAPH, node="batch") as a, sluice.batches(GRAPH, node="batch") as b:
            pairs = [((x.epoch, x.index, x.sha256()), (y.epoch, y.index, y.sha256())) for x, y in zip(a, b)]
        self.assertEqual(pairs, [(e, e) for e in expected])

    def test_a_loop_may_take_its_time_and_a_closed_loader_says_so(self):
        with sluice.batches(GRAPH, node="batch", set={"run.watchdog_s": 0.1}) as loader:
            next(loader)
            time.sleep(0.5)
            self.assertEqual(len(list(loader)), 9)
        with self.assertRaisesRegex(ValueError, "closed"):
            next(loader)

    def test_what_the_loop_takes_is_a_row_of_the_profile(self):
        with sluice.batches(GRAPH, node="batch", epochs=2) as loader:
            self.assertIsNone(loader.profile())
            for _ in loader:
                time.sleep(0.15)  # far above what a batch takes on a loaded machine
            profile = loader.profile()
        self.assertGreater(profile["nodes"]["your loop"]["busy"], 0.5)
        self.assertIn("`your loop` limits", profile["verdict"])
        self.assertIn("your loop", str(profile))


class Errors(unittest.TestCase):
    def test_a_wrong_node(self):
        for node, words in (
            ("bacth", 'no node is called "bacth"; did you mean "batch"?'),
            ("batch.smaple", '"batch" (batch) has no output "smaple"; did you mean "sample"?'),
            ("step", "trains a network"),
            ("infer.sample.x", "no node is called"),
        ):
            with self.assertRaises(sluice.GraphError) as caught:
                sluice.batches(GRAPH, node=node)
            self.assertIn(words, str(caught.exception))

    def test_a_wrong_graph_says_what_check_says(self):
        wrong = graph(flip={"type": "rand_flpi", "in": "mix"})
        with self.assertRaises(sluice.GraphError) as caught:
            sluice.batches(wrong, node="batch")
        self.assertIn('did you mean "rand_flip"?', str(caught.exception))
        found = sluice.check(wrong)
        self.assertEqual([d.code for d in found], [d["code"] for d in caught.exception.diagnostics])
        self.assertIn("rand_flpi", str(found[0]))
        self.assertEqual([d for d in sluice.check(GRAPH) if d.severity == "error"], [])

    def test_a_bad_sample_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "a.nii"), "wb") as out:
                out.write(b"no image")
            bad = {
                "nodes": {
                    "files": {"type": "file_list", "root": folder, "pattern": "*.nii"},
                    "load": {"type": "load_image", "in": "files", "keys": "image"},
                }
            }
            with self.assertRaises((sluice.DataError, sluice.FileError)) as caught:
                list(sluice.batches(bad, node="load"))
        self.assertEqual((caught.exception.sample, caught.exception.node), ("a", "load"))
        self.assertIn("a.nii", str(caught.exception))

    def test_a_missing_file(self):
        with self.assertRaises(sluice.Error) as caught:
            sluice.batches("/no/such/graph.json", node="batch")
        self.assertIn("/no/such/graph.json", str(caught.exception))

    def test_a_torch_of_another_version(self):
        from sluice import _library

        built = json.loads((_library.runtime_file().parent / "sluice_built.json").read_text())
        code = (
            "import torch\ntorch.__version__ = '9.9.9+cpu'\nimport sluice\n"
            "try: sluice.batches({}, node='x')\nexcept ImportError as e: print(e)\n"
        )
        self.assertIn(f"torch 9.9.9 is installed, and this sluice was built for torch {built['torch']}", python(code).stdout)


    def test_a_processor_that_is_too_old(self):
        from sluice import _library

        with tempfile.NamedTemporaryFile("w") as file:
            file.write("model name\t: Old\nflags\t\t: fpu sse2 fma bmi2\n")
            file.flush()
            with self.assertRaisesRegex(ImportError, "no AVX2"):
                _library._require_cpu(file.name)


class Commands(unittest.TestCase):
    def test_what_the_command_says(self):
        self.assertIn("digraph", sluice.dot(GRAPH))
        self.assertIn('id="node0"', sluice.svg(GRAPH))
        self.assertEqual(sluice.inspect("rand_flip")["name"], "rand_flip")
        with self.assertRaises(sluice.Error):
            sluice.inspect("no_such_node")
        done = subprocess.run([sys.executable, "-m", "sluice", "--version"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout.split()[0]), (0, "sluice"))

    def test_names_are_whole_in_a_locale_of_ascii(self):
        ascii_only = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        done = python(
            "import sluice; a = {'type': 'synthetic', 'num_samples': 1};"
            "print('\\u00fc' in sluice.dot({'name': '\\u00fc', 'nodes': {'a': a}}))",
            env=ascii_only,
        )
        self.assertEqual(done.stdout, "True\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
