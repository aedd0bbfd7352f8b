#!/usr/bin/env python3
"""rename_stacks.py - unseen rows as others would have written them.

    calibrate/rename_stacks.py 1 DIR                   # names 1 to 5 of unseen/names/stacks.csv
    calibrate/rename_stacks.py 0 DIR --columns-of calibrate/measured/runs/internevo_a100.csv
    build/ballast validate DIR/*.csv

1 to 5 write to DIR the text rows without adapters of calibrate/measured/unseen/*.csv with the column
`stack` of the first to fifth curator, the third's and fifth's with those ones' notes as well: 1 to 3
named the stacks of rounds 1 to 26 and 32, 4 and 5 those of rounds 27 to 34. 0 writes all rows under
this project's names. With --columns-of only the columns of that file are kept.
"""
import argparse
import csv
import pathlib

UNSEEN = pathlib.Path(__file__).resolve().parent / "measured" / "unseen"


def read_names(which):
    with open(UNSEEN / "names" / "stacks.csv", newline="", encoding="utf-8") as file:
        return {(row["source"], row["stack"]): row for row in csv.DictReader(file)
                if row["name_" + which]}


def renamed(rows, names, which, stem):
    kept = [row for row in rows if (row["source"], row["stack"]) in names
            and row["modality"] == "text" and "lora" not in stem and not row.get("lora_rank")]
    for row in kept:
        told = names[row["source"], row["stack"]]
        row["stack"] = told["name_" + which]
        if which in ("3", "5"):
            row["notes"] = told["notes_" + which]
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=["0", "1", "2", "3", "4", "5"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--columns-of", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    which, folder = arguments.which, arguments.folder
    columns = None
    if arguments.columns_of:
        with open(arguments.columns_of, newline="", encoding="utf-8") as file:
            columns = next(csv.reader(file))
    names = read_names(which) if which != "0" else None
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.glob("*.csv")):
        parser.error(f"{folder} holds CSV files already: name an empty folder")
    for path in sorted(UNSEEN.glob("*.csv")):
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
        if names is not None:
            rows = renamed(rows, names, which, path.stem)
        if not rows:
            continue
        with open(folder / path.name, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns or reader.fieldnames, restval="",
                                    extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
