"""Works through pylance on a table of ours whose key has two columns (v utf8, id int64, n int32, tag utf8; key tag, id).

    lsm_keys.py PATH OPERATION...

Operations run in order, each as one commit:

    append:ID:N      one row
    delete:SQL
    update:N:SQL     n = N where SQL holds
    compact          compaction that remaps at once
    defer            compaction that records where the rows went
    indices          brings indexes up to date

Then it validates the table and prints one JSON object: "rows", [id, n] of all rows by id; "looked", the same read row by row
through a filter on both key columns; "names", the indexes that it knows.
"""

import json
import sys

import lance
import pyarrow as pa


def run(ds, operation):
    kind, _, rest = operation.partition(":")
    if kind == "append":
        i, n = (int(x) for x in rest.split(":"))
        row = {"v": None if n % 4 == 0 else f"v{n}", "id": i, "n": n, "tag": f"{i // 10:07d}"}
        ds.insert(pa.Table.from_pylist([row], schema=ds.schema))
    elif kind == "delete":
        ds.delete(rest)
    elif kind == "update":
        n, where = rest.split(":")
        ds.update({"n": n, "v": "NULL" if int(n) % 4 == 0 else f"'v{n}'"}, where=where)
    elif kind == "compact":
        ds.optimize.compact_files(target_rows_per_fragment=100000)
    elif kind == "defer":
        ds.optimize.compact_files(target_rows_per_fragment=100000, defer_index_remap=True)
    elif kind == "indices":
        ds.optimize.optimize_indices()
    else:
        raise SystemExit(f"lsm_keys: unknown operation {operation}")


def main():
    _, path, *operations = sys.argv
    for operation in operations:
        run(lance.dataset(path), operation)
    ds = lance.dataset(path)
    ds.validate()
    rows = sorted([r["id"], r["n"]] for r in ds.to_table(columns=["id", "n"]).to_pylist())
    looked = []
    for i, _ in rows:
        found = ds.to_table(columns=["id", "n"], filter=f"tag = '{i // 10:07d}' and id = {i}").to_pylist()
        looked += [[r["id"], r["n"]] for r in found]
    print(json.dumps({"rows": rows, "looked": looked, "names": [d.name for d in ds.describe_indices()]}))


main()
