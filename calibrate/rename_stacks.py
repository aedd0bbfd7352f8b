#!/usr/bin/env python3
"""rename_stacks.py - unseen rows under the names that others gave their stacks.

    calibrate/rename_stacks.py 1 DIR     # names 1 to 5 of unseen/names/stacks.csv
    build/ballast validate DIR/*.csv

Writes to DIR the text rows without adapters of calibrate/measured/unseen/*.csv with the column
`stack` of the first to fifth curator, the third's and fifth's with those ones' notes as well: 1 to 3
named the stacks of rounds 1 to 26 and 32, 4 and 5 those of rounds 27 to 34.
"""
import csv
import pathlib
import sys

UNSEEN = pathlib.Path(__file__).resolve().parent / "measured" / "unseen"


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("1", "2", "3", "4", "5"):
        sys.exit(__doc__)
    which, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    with open(UNSEEN / "names" / "stacks.csv", newline="", encoding="utf-8") as file:
        names = {(row["source"], row["stack"]): row for row in csv.DictReader(file)
                 if row["name_" + which]}
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.glob("*.csv")):
        sys.exit(f"{folder} holds CSV files already: name an empty folder")
    for path in sorted(UNSEEN.glob("*.csv")):
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows = [row for row in reader if (row["source"], row["stack"]) in names
                    and row["modality"] == "text" and "lora" not in path.stem
                    and not row.get("lora_rank")]
        if not rows:
            continue
        for row in rows:
            told = names[row["source"], row["stack"]]
            row["stack"] = told["name_" + which]
            if which in ("3", "5"):
                row["notes"] = told["notes_" + which]
        with open(folder / path.name, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, reader.fieldnames, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
