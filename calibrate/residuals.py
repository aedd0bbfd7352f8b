#!/usr/bin/env python3
"""residuals.py - what the errors of the unseen text runs have in common.

    build/ballast validate calibrate/measured/unseen/*.csv --json --quiet > FILE
    calibrate/residuals.py FILE

Prints two tables. Errors by the grades that unseen/trust/sources.csv gives their sources. Then, for
each property of a run, the error by source if every run were corrected by what sources other than
its own show for runs alike in it: a property that lowers it is a cause that the model lacks. Each
source counts once.
"""
import collections
import csv
import json
import math
import pathlib
import re
import statistics
import sys

UNSEEN = pathlib.Path(__file__).resolve().parent / "measured" / "unseen"
GRADES = ("time", "configuration", "machine")
FOLDS = 25
# Sources that a level must outweigh before it is believed, and the largest error that it is shown.
PRIOR_SOURCES = 4
LARGEST_LOG_ERROR = 0.3

Run = collections.namedtuple("Run", "source log_error in_band levels")


def bucket(value, bounds):
    return sum(value > bound for bound in bounds)


def properties(row, result):
    def number(key, usual=0.0):
        digits = re.search(r"[0-9.]+", row.get(key) or "")  # "256 max"
        return float(digits.group()) if digits else usual

    gpus, width, tokens = number("gpu_count", 1), number("hidden"), number("seq_len")
    return {
        "GPU": row["hardware"],
        "GPU family": row["hardware"].split("-")[0],
        "stack": result["stack"],
        "framework": result["stack"].split("-")[0],
        "framework and scale": (result["stack"].split("-")[0], bucket(gpus, (1, 8))),
        "precision": row["precision"],
        "hidden size": bucket(width, (1024, 2048, 3072, 4096, 5120, 8192)),
        "GPUs": bucket(gpus, (1, 4, 8, 16, 64, 256)),
        "tokens of a sequence": bucket(tokens, (1024, 2048, 4096, 8192)),
        "tokens of a micro-batch": bucket(number("micro_batch", 1) * tokens, (2048, 4096, 8192, 16384)),
        "predicted step": bucket(result["predicted_iter_time_s"], (0.1, 0.3, 1, 3, 10)),
        "recomputation": row.get("recompute") or "not said",
        "ZeRO stage": row.get("zero_stage") or "not said",
        "TP": bucket(number("tp", 1), (1, 2, 4)),
        "PP": bucket(number("pp", 1), (1, 4)),
        "inside the measured range": result["inside_range"],
    }


def read_runs(path):
    with open(path, encoding="utf-8") as file:
        results = {row["row_id"]: row for row in json.load(file)["rows"]}
    runs = []
    for rows in sorted(UNSEEN.glob("*.csv")):
        with open(rows, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                result = results.get(row["row_id"])
                if (result is None or result["relative_error"] is None or result["calibrated_on"]
                        or row.get("modality", "text") not in ("", "text")):
                    continue
                measured, predicted = result["measured_iter_time_s"], result["predicted_iter_time_s"]
                runs.append(Run(row["source"], math.log(measured / predicted),
                                result["band_low_s"] <= measured <= result["band_high_s"],
                                properties(row, result)))
    return runs


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def by_source(runs, corrections=None):
    """(error, signed error) of each source, as fractions of the measured step."""
    errors = collections.defaultdict(list)
    for k, run in enumerate(runs):
        errors[run.source].append(math.exp((corrections[k] if corrections else 0) - run.log_error) - 1)
    return [(mean(map(abs, signed)), mean(signed)) for signed in errors.values()]


def corrected(runs, name):
    """For each run the mean log error of its level among sources of the other folds."""
    fold = {source: k % FOLDS for k, source in enumerate(sorted({run.source for run in runs}))}
    rows = collections.Counter(run.source for run in runs)
    total, weight = collections.Counter(), collections.Counter()
    for run in runs:
        error = max(-LARGEST_LOG_ERROR, min(LARGEST_LOG_ERROR, run.log_error))
        for place in ((run.levels[name], None), (run.levels[name], fold[run.source])):
            total[place] += error / rows[run.source]
            weight[place] += 1 / rows[run.source]
    out = []
    for run in runs:
        level, own = run.levels[name], (run.levels[name], fold[run.source])
        out.append((total[level, None] - total[own]) /
                   (weight[level, None] - weight[own] + PRIOR_SOURCES))
    return out


def print_grade(name, runs):
    if not runs:
        return
    errors = by_source(runs)
    print(f"| {name} | {len(errors)} | {len(runs)} | {100 * mean(e for e, _ in errors):.1f} "
          f"| {100 * statistics.median(e for e, _ in errors):.1f} | {100 * mean(s for _, s in errors):+.1f} "
          f"| {sum(e > 0.2 for e, _ in errors)} | {100 * mean(run.in_band for run in runs):.0f} |")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    runs = read_runs(sys.argv[1])
    if not runs:
        sys.exit(f"{sys.argv[1]} holds no scored text row of {UNSEEN}")
    with open(UNSEEN / "trust" / "sources.csv", newline="", encoding="utf-8") as file:
        grades = {row["source"]: [int(row[name]) for name in GRADES] for row in csv.DictReader(file)}
    graded = [run for run in runs if run.source in grades]
    print("| grade of the source | sources | rows | by source, % | median | signed | above 20 % | in band, % |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, best, worst in (("1 in all three", 3, 3), ("2 in one", 4, 4), ("2 in two, or a 3 in one", 5, 5),
                              ("worse", 6, 9)):
        print_grade(name, [run for run in graded if best <= sum(grades[run.source]) <= worst])
    for k, name in enumerate(GRADES):
        for grade in (1, 2, 3):
            print_grade(f"{name} {grade}", [run for run in graded if grades[run.source][k] == grade])
    print_grade("not graded", [run for run in runs if run.source not in grades])
    print_grade("all", runs)
    print("\n| corrected by | by source, % | above 20 % |\n|---|--:|--:|")
    for name in [None, *runs[0].levels]:
        errors = by_source(runs, corrected(runs, name) if name else None)
        print(f"| {name or 'nothing'} | {100 * mean(e for e, _ in errors):.2f} "
              f"| {sum(e > 0.2 for e, _ in errors)} |")


if __name__ == "__main__":
    main()
