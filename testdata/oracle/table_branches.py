"""Branches, clones and base paths of pylance.

    table_branches.py DIRECTORY make|read|write

make: main.lance with branches dev and feature/x (of dev) and tag on-branch; its clone clone.lance; based.lance, whose first
file lies in one/. read: only reads. write: one more commit on each, based.lance into its second base path. Writes to standard
output, for each of main, dev, feature/x, on-branch, clone and based, {"Version", "IDs": as they are scanned}.
"""

import json
import os
import sys

import lance
import pyarrow as pa
from lance import DatasetBasePath

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


def rows(first, last):
    ids = list(range(first, last))
    return pa.table({"id": ids, "name": [str(i) for i in ids]}, schema=SCHEMA)


def make(at):
    main = lance.write_dataset(rows(0, 20), at("main.lance"))
    main.delete("id = 5")
    main.create_scalar_index("id", "BTREE")
    main.shallow_clone(at("clone.lance"), main.version)
    dev = main.create_branch("dev")
    dev = lance.write_dataset(rows(100, 110), dev, mode="append")
    dev.delete("id = 7 or id = 103")
    main.tags.create("on-branch", ("dev", dev.version))
    x = dev.create_branch("feature/x")
    x.delete("id = 9")
    lance.write_dataset(rows(20, 25), at("main.lance"), mode="append")
    os.makedirs(at("one"))
    one = [DatasetBasePath(at("one"), name="one", is_dataset_root=False)]
    lance.write_dataset(rows(0, 6), at("based.lance"), initial_bases=one, target_bases=["one"])
    lance.write_dataset(rows(6, 8), at("based.lance"), mode="append").delete("id = 2")


def write(at):
    main = lance.dataset(at("main.lance"))
    for line in ("dev", "feature/x"):
        branch = main.checkout_version((line, None))
        lance.write_dataset(rows(300, 303), branch, mode="append").delete("id = 301")
    os.makedirs(at("two"))
    lance.write_dataset(rows(8, 11), at("based.lance"), mode="append", target_bases=["two"])


def main():
    def at(name):
        return os.path.join(sys.argv[1], name)

    if sys.argv[2] == "make":
        make(at)
    elif sys.argv[2] == "write":
        write(at)
    main = lance.dataset(at("main.lance"))
    found = {
        "main": main,
        "dev": main.checkout_version(("dev", None)),
        "feature/x": main.checkout_version(("feature/x", None)),
        "on-branch": main.checkout_version("on-branch"),
        "clone": lance.dataset(at("clone.lance")),
        "based": lance.dataset(at("based.lance")),
    }
    for d in found.values():
        d.validate()
    print(json.dumps({k: {"Version": d.version, "IDs": d.to_table()["id"].to_pylist()} for k, d in found.items()}))


if __name__ == "__main__":
    main()
