"""Reads results of talon lab, and plots them.

    import talon_lab
    lab = talon_lab.open("results")      # a folder of talon lab run --out, or a runs.jsonl
    lab.runs()                           # pandas: a row for each run, with a column for each measure
    lab.ratios("bytes")                  # change of each variant against the first, seed by seed
    lab.plot_staleness("staleness.pdf")

Reading needs the standard library only. Tables need pandas, and plots need matplotlib.
"""

import json
import os
import statistics

__all__ = ["Lab", "open", "variant_of"]

_open = open
FORM = "talon-lab-run/1"


def open(path):
    """Opens a folder of results, or a file of runs."""
    meta = None
    if os.path.isdir(path):
        kept = os.path.join(path, "run.json")
        if os.path.exists(kept):
            with _open(kept, encoding="utf-8") as f:
                meta = json.load(f)
        path = os.path.join(path, "runs.jsonl")
    lines = []
    with _open(path, encoding="utf-8") as f:
        for number, text in enumerate(f, 1):
            line = json.loads(text)
            if line.get("version") != FORM:
                raise ValueError("%s:%d: the form is %r, want %s" % (path, number, line.get("version"), FORM))
            lines.append(line)
    return Lab(lines, meta)


def variant_of(line):
    """Returns the name of the variant of a run, as talon lab writes it."""
    words = []
    for module in (line.get("strategy"), line.get("throttle")):
        if module:
            words.append(" ".join([module["name"]] + ["%s=%s" % (s["key"], s["value"]) for s in module.get("config", [])]))
    return " + ".join(words)


class Lab:
    """The runs of some results. lines has each as the file does; meta is run.json, or None."""

    def __init__(self, lines, meta=None):
        self.lines, self.meta = lines, meta

    def variants(self):
        """Returns the names of the variants, in the order of their first runs."""
        return list(dict.fromkeys(variant_of(line) for line in self.lines))

    def finished(self):
        """Returns the runs that finished. Comparisons leave out the others."""
        return [line for line in self.lines if line["end"]["how"] == "finished"]

    def values(self, measure):
        """Returns the values of a measure: a dict by variant of dicts by seed."""
        table = {name: {} for name in self.variants()}
        for line in self.finished():
            values = table[variant_of(line)]
            if line["seed"] in values:
                raise ValueError("seed %d of %s is there with several settings: select one with where()" % (line["seed"], variant_of(line)))
            values[line["seed"]] = line["measures"].get(measure)
        return {name: {s: v for s, v in values.items() if v is not None} for name, values in table.items()}

    def settings(self, key):
        """Returns the values that a key of the scenario had (talon lab sweep), in the order of their first runs."""
        return list(dict.fromkeys(s["value"] for line in self.lines for s in line.get("set", []) if s["key"] == key))

    def where(self, key, value):
        """Returns the runs with a value of a key of the scenario."""
        return Lab([line for line in self.lines if {"key": key, "value": value} in line.get("set", [])], self.meta)

    def ratios(self, measure, base=None):
        """Returns value / value of the base, by variant: the list over the seeds that both have.

        The base is the first variant unless it is named. Seeds with the value 0 are left out.
        """
        table = self.values(measure)
        base = base or self.variants()[0]
        result = {}
        for name, values in table.items():
            if name != base:
                seeds = sorted(s for s in values if table[base].get(s))
                result[name] = [values[s] / table[base][s] for s in seeds]
        return result

    def median_ratios(self, measure, base=None):
        """Returns the ratio of the median seed for each variant, as talon lab compares them."""
        return {name: statistics.median(list_) for name, list_ in self.ratios(measure, base).items() if list_}

    def missing(self):
        """Returns the wanted events that were not here at the end, as (variant, seed, id, kind)."""
        return [
            (variant_of(line), line["seed"], event["id"], event["kind"])
            for line in self.lines
            for event in line.get("missing", [])
        ]

    def staleness(self, variant):
        """Returns the distribution of the staleness: pairs (seconds, share of events at most so late)."""
        counts, missing = {}, 0
        for line in self.finished():
            if variant_of(line) == variant and "staleness" in line:
                missing += line["staleness"].get("missing", 0)
                for limit, n in line["staleness"]["buckets"]:
                    counts[limit] = counts.get(limit, 0) + n
        total, so_far, pairs = sum(counts.values()) + missing, 0, []
        for limit in sorted(counts):
            so_far += counts[limit]
            pairs.append((limit, so_far / total))
        return pairs

    def series(self, variant, name):
        """Returns a series over time: pairs (seconds, median over the seeds)."""
        lists, every = [], 0
        for line in self.finished():
            if variant_of(line) == variant and name in line.get("series", {}):
                lists.append(line["series"][name])
                every = line["series"]["every"]
        return [(i * every, statistics.median(values)) for i, values in enumerate(zip(*lists))]

    # Tables.

    def runs(self):
        """Returns a pandas.DataFrame: a row for each run, with a column for each measure."""
        import pandas

        rows = []
        for line in self.lines:
            row = {"scenario": line["scenario"]["name"], "level": line["level"], "variant": variant_of(line), "seed": line["seed"]}
            row.update({"set." + s["key"]: s["value"] for s in line.get("set", [])})
            row["end"] = line["end"]["how"]
            row.update(line["measures"])
            rows.append(row)
        return pandas.DataFrame(rows)

    def relays(self):
        """Returns a pandas.DataFrame: a row for each relay of each run."""
        import pandas

        rows = []
        for line in self.lines:
            for relay in line.get("relays", []):
                row = {"variant": variant_of(line), "seed": line["seed"]}
                row.update({key: value for key, value in relay.items() if key != "load"})
                rows.append(row)
        return pandas.DataFrame(rows)

    # Plots.

    def plot_staleness(self, path):
        """Plots how many events are at most so late, by variant."""
        figure, axes = self._figure()
        for name in self.variants():
            pairs = self.staleness(name)
            axes.step([max(p[0], 1e-3) for p in pairs], [p[1] for p in pairs], where="post", label=name)
        axes.set_xscale("log")
        axes.set_xlabel("seconds from publication to arrival")
        axes.set_ylabel("share of events")
        return self._save(figure, axes, path)

    def plot_series(self, path, name="bytes_down"):
        """Plots a series over time, the median over the seeds, by variant."""
        figure, axes = self._figure()
        for variant in self.variants():
            pairs = self.series(variant, name)
            axes.plot([p[0] / 3600 for p in pairs], [p[1] for p in pairs], label=variant)
        axes.set_xlabel("hours")
        axes.set_ylabel(name)
        return self._save(figure, axes, path)

    def plot_ratios(self, path, measure="bytes", base=None):
        """Plots the change of each seed against the first variant."""
        figure, axes = self._figure()
        for number, (name, values) in enumerate(self.ratios(measure, base).items()):
            axes.plot(values, [number] * len(values), "|", markersize=12, label=name)
        axes.axvline(1, color="grey", linewidth=0.8)
        axes.set_yticks([])
        axes.set_xlabel("%s, against %s" % (measure, base or self.variants()[0]))
        return self._save(figure, axes, path)

    def plot_sweep(self, path, key, measure="recall"):
        """Plots a measure, the median over the seeds, over the values of a key (talon lab sweep)."""
        figure, axes = self._figure()
        settings = self.settings(key)
        for name in self.variants():
            tables = [self.where(key, value).values(measure).get(name, {}) for value in settings]
            axes.plot(range(len(settings)), [statistics.median(t.values()) if t else None for t in tables], marker="o", label=name)
        axes.set_xticks(range(len(settings)), settings)
        axes.set_xlabel(key)
        axes.set_ylabel(measure)
        return self._save(figure, axes, path)

    def _figure(self):
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        return pyplot.subplots(figsize=(5, 3.2))

    def _save(self, figure, axes, path):
        axes.legend(fontsize=7)
        figure.tight_layout()
        figure.savefig(path)
        from matplotlib import pyplot

        pyplot.close(figure)
        return path
