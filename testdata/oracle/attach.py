"""Is the other writer of a dataset that a server of ours attaches, for tests of test/e2e.

    attach.py make PATH [stable]     a dataset (id int64 not null, v utf8, at timestamp us) with rows 1..5, appended in two parts;
                                     stable: with stable row ids
    attach.py keyed PATH             the same with id as the primary key
    attach.py append PATH FIRST N    appends N rows from FIRST on
    attach.py delete PATH ID         deletes the rows with that id
    attach.py read PATH              validates and prints the ids of all rows, ascending, and the number of versions
"""

import datetime
import json
import sys

import lance
import pyarrow as pa


def schema(keyed):
    key = {"lance-schema:unenforced-primary-key": "true"} if keyed else None
    return pa.schema(
        [pa.field("id", pa.int64(), nullable=False, metadata=key), pa.field("v", pa.string()), pa.field("at", pa.timestamp("us"))]
    )


def rows(first, n, keyed=False):
    ids = list(range(first, first + n))
    at = [datetime.datetime(2026, 1, 1) + datetime.timedelta(microseconds=i) for i in ids]
    return pa.table({"id": ids, "v": [f"py{i}" for i in ids], "at": at}, schema=schema(keyed))


mode, path, *rest = sys.argv[1:]
if mode in ("make", "keyed"):
    keyed = mode == "keyed"
    lance.write_dataset(rows(1, 3, keyed), path, enable_stable_row_ids="stable" in rest)
    lance.write_dataset(rows(4, 2, keyed), path, mode="append")
elif mode == "append":
    lance.write_dataset(rows(int(rest[0]), int(rest[1])), path, mode="append")
elif mode == "delete":
    lance.dataset(path).delete(f"id = {rest[0]}")
else:
    ds = lance.dataset(path)
    ds.validate()
    print(json.dumps({"ids": sorted(ds.to_table(columns=["id"]).column(0).to_pylist()), "versions": len(ds.versions())}))
