"""What a wheel holds, from `tools/wheel.sh --stage`: nothing it needs is missing, and it says so rightly."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import torch

from sluice import _library

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of every system (auditwheel's list for manylinux_2_35), and what torch brings.
THEIRS = re.compile(
    r"(ld-linux.*|lib(c|m|dl|pthread|rt|gcc_s|stdc\+\+|resolv|expat)|lib(torch|c10|gomp|cu[a-z]|nv).*)\.so.*"
)


def needed(file):
    text = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\)[^[]*\[([^]]*)\]", text)


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        done = subprocess.run(
            [ROOT / "tools/wheel.sh", "--stage", cls.folder.name], capture_output=True, text=True,
            env=os.environ | {"BUILD": str(_library.runtime_file().parent)},
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(done.stderr)
        cls.site = pathlib.Path(cls.folder.name)
        (cls.info,) = cls.site.glob("sluice-*.dist-info")

    def test_every_library_is_beside_it_or_the_systems_or_torchs(self):
        there = {f.name for f in (self.site / "sluice/libs").iterdir()} | {f.name for f in (self.site / "sluice").iterdir()}
        binaries = [*self.site.glob("sluice/*.so"), *self.site.glob("sluice/libs/*"), self.site / "sluice/sluice_dicom"]
        self.assertGreater(len(binaries), 10)
        for file in binaries:
            for name in needed(file):
                self.assertTrue(name in there or THEIRS.fullmatch(name), f"{file.name} needs {name}")
        for name in there:  # a second LibTorch or OpenMP would be a second pool of threads
            self.assertIsNone(re.match(r"lib(torch|c10|gomp|cudart|nccl)\b", name), name)

    def test_the_command_needs_the_system_alone(self):
        (command,) = self.site.glob("*.data/scripts/sluice")
        self.assertTrue(all(THEIRS.fullmatch(name) for name in needed(command)), needed(command))
        self.assertTrue(os.access(command, os.X_OK))

    def test_the_licence_of_each_library_is_there(self):
        licences = list(self.info.glob("licenses/*/copyright"))
        self.assertGreater(len(licences), 10)
        self.assertTrue(all(f.stat().st_size > 100 for f in licences))

    def test_what_it_says_of_itself(self):
        text = (self.info / "METADATA").read_text()
        self.assertIn(f"Requires-Dist: torch=={torch.__version__.split('+')[0]}\n", text)
        self.assertIn("Tag: py3-none-manylinux_2_35_x86_64\n", (self.info / "WHEEL").read_text())
        built = json.loads((self.site / "sluice/sluice_built.json").read_text())
        self.assertIn(f"Version: {built['sluice']}\n", text)

    def test_as_pip_would_lay_it_out_the_command_finds_runtime_and_graphs(self):
        with tempfile.TemporaryDirectory() as prefix:
            home = pathlib.Path(prefix)
            site = home / "lib/python3.99/site-packages"
            site.mkdir(parents=True)
            (home / "bin").mkdir()
            (site / "sluice").symlink_to(self.site / "sluice")
            (command,) = self.site.glob("*.data/scripts/sluice")
            os.link(command, home / "bin/sluice")
            clean = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}

            def run(*words):
                return subprocess.run([home / "bin/sluice", *words], capture_output=True, text=True, env=clean, cwd=home)

            self.assertIn("\nbrain ", run("graphs").stdout)
            self.assertEqual(run("graphs", "brain", "-o", "b.json").returncode, 0)
            self.assertEqual((home / "b.json").read_text(), (ROOT / "graphs/brain.json").read_text())
            self.assertEqual(run("check", "b.json").returncode, 0)
            again = run("graphs", "brain", "-o", "b.json")
            self.assertEqual((again.returncode, "there already" in again.stderr), (2, True))
            self.assertEqual(run("graphs", "augment2d_strong", "-o", "in/a.json").returncode, 0)
            self.assertEqual(run("check", "in/a.json").returncode, 0)
            wrong = run("graphs", "brian")
            self.assertEqual((wrong.returncode, 'did you mean "brain"?' in wrong.stderr), (2, True))
            found = next(f for f in json.loads(run("doctor", "--json").stdout)["findings"] if f["name"] == "runtime")
            self.assertEqual(found["data"]["file"], str(site / "sluice/libsluice_runtime.so"))
            # The page's server is there too.
            page = subprocess.Popen(
                [home / "bin/sluice", "open", "--no-browser", "--port", "0"], env=clean, cwd=home,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                self.assertRegex(page.stdout.readline(), r"^http://127.0.0.1:\d+/#[0-9a-f]{64}$")
            finally:
                page.send_signal(signal.SIGINT)
                page.communicate(timeout=120)


if __name__ == "__main__":
    unittest.main()
