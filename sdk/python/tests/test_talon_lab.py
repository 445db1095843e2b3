import json
import os
import tempfile
import unittest

import talon_lab


def run(variant, seed, size, how="finished", missing=()):
    return {
        "version": "talon-lab-run/1", "scenario": {"name": "small", "digest": "d", "duration": 60}, "level": "wire", "seed": seed,
        "strategy": {"name": variant}, "throttle": {"name": "polite"}, "end": {"how": how, "at": 60},
        "measures": {"completeness": 1, "bytes": size}, "missing": [{"id": i, "kind": 1, "talon": "talon-0"} for i in missing],
        "series": {"every": 30, "bytes_down": [0, size]}, "staleness": {"missing": len(missing), "buckets": [[1, 3], [10, 1]]},
        "relays": [{"name": "a-0", "bytes_up": 1, "load": [1]}],
    }


class TestLab(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        with open(os.path.join(self.dir.name, "runs.jsonl"), "w") as f:
            for line in [run("a", 1, 100), run("b", 1, 50), run("a", 2, 200), run("b", 2, 50, missing=["x"]), run("a", 3, 9), run("b", 3, 9, "invariant")]:
                f.write(json.dumps(line) + "\n")
        self.lab = talon_lab.open(self.dir.name)

    def tearDown(self):
        self.dir.cleanup()

    def test_reads(self):
        self.assertEqual(self.lab.variants(), ["a + polite", "b + polite"])
        self.assertEqual(self.lab.ratios("bytes"), {"b + polite": [0.5, 0.25]})
        self.assertEqual(self.lab.median_ratios("bytes"), {"b + polite": 0.375})
        self.assertEqual(self.lab.missing(), [("b + polite", 2, "x", 1)])
        self.assertEqual(self.lab.series("b + polite", "bytes_down"), [(0, 0), (30, 50)])
        self.assertEqual(self.lab.staleness("b + polite"), [(1, 6 / 9), (10, 8 / 9)])

    def test_sweeps(self):
        lines = [dict(run("a", seed, size), set=[{"key": "k", "value": value}]) for seed in (1, 2) for value, size in (("10", 100), ("20", 50))]
        lab = talon_lab.Lab(lines)
        self.assertEqual(lab.settings("k"), ["10", "20"])
        self.assertEqual(lab.where("k", "20").values("bytes"), {"a + polite": {1: 50, 2: 50}})
        with self.assertRaisesRegex(ValueError, "seed 1 of a . polite is there with several settings"):
            lab.values("bytes")

    def test_other_forms(self):
        path = os.path.join(self.dir.name, "other.jsonl")
        with open(path, "w") as f:
            f.write('{"version": "talon-lab-run/9"}\n')
        with self.assertRaisesRegex(ValueError, "other.jsonl:1: the form is 'talon-lab-run/9'"):
            talon_lab.open(path)

    def test_pandas(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        self.assertEqual(self.lab.runs()["bytes"].sum(), 418)
        self.assertEqual(list(self.lab.relays().columns), ["variant", "seed", "name", "bytes_up"])

    def test_plots(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("matplotlib is not installed")
        for plot in (self.lab.plot_staleness, self.lab.plot_series, self.lab.plot_ratios):
            path = plot(os.path.join(self.dir.name, "plot.png"))
            self.assertGreater(os.path.getsize(path), 1000)
        swept = talon_lab.Lab([dict(run("a", 1, 100), set=[{"key": "k", "value": value}]) for value in ("10", "20")])
        self.assertGreater(os.path.getsize(swept.plot_sweep(os.path.join(self.dir.name, "sweep.png"), "k", "bytes")), 1000)


if __name__ == "__main__":
    unittest.main()
