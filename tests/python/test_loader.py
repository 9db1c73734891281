"""`import sluice`: the same batches as `sluice run`, resume in mid-epoch, and the manners of a guest."""

import copy
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref

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


def python(code, **more):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **more)


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


if __name__ == "__main__":
    unittest.main()
