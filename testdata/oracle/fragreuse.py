"""Compacts, indexes and queries a table through pylance, for tests of the fragment reuse history.

    fragreuse.py PATH

Standard input holds JSON requests, one a line: {"op": NAME, ...} (the functions below). Each is answered by one line on standard
output: {"answer": ...} or {"error": TEXT}. The table has columns id (int64), c (int32 with nulls), s (utf8).
"""

import json
import sys

import lance
import pyarrow as pa
from lance.optimize import Compaction

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("c", pa.int32()), pa.field("s", pa.string())])


def rows(first, last):
    ids = list(range(first, last))
    return pa.table({"id": ids, "c": [None if i % 7 == 0 else i % 5 for i in ids], "s": [f"s{i % 11}" for i in ids]}, schema=SCHEMA)


def create(path, first, last, fragment_rows):
    lance.write_dataset(rows(first, last), path, max_rows_per_file=fragment_rows)


def append(path, first, last):
    lance.dataset(path).insert(rows(first, last))


def index(path, column, kind, name):
    lance.dataset(path).create_scalar_index(column, kind, name=name, replace=True)


def delete(path, where):
    lance.dataset(path).delete(where)


def compact(path, defer, rows=1 << 20):
    lance.dataset(path).optimize.compact_files(
        target_rows_per_fragment=rows, defer_index_remap=defer, materialize_deletions_threshold=0.0, num_threads=1
    )


PLANNED = []


def plan(path, excluded):
    """The first half of a compaction: rows are written, nothing is committed."""
    dataset = lance.dataset(path)
    planned = Compaction.plan(dataset, {"defer_index_remap": True, "excluded_fragment_ids": excluded})
    PLANNED.append((dataset, [task.execute(dataset) for task in planned.tasks]))
    return len(planned.tasks)


def finish(path):
    """The second half, on the version it was planned on."""
    dataset, results = PLANNED.pop()
    Compaction.commit(dataset, results, {"defer_index_remap": True})


def extend(path):
    lance.dataset(path).optimize.optimize_indices()


def touch(path):
    """A commit that concerns neither rows nor indexes."""
    lance.dataset(path).update_config({"touched": "yes"})


def remap(path, addrs):
    out = lance.dataset(path).remap_row_addrs(pa.array(addrs, pa.uint64()))
    return None if out is None else out.to_pylist()


def query(path, filters):
    """For each filter the ids by the index and by a scan, and the name of the index in the plan."""
    dataset = lance.dataset(path)
    out = []
    for sql in filters:
        plan = dataset.scanner(filter=sql).explain_plan(True)
        name = plan.split("@")[1].split("(")[0] if "ScalarIndexQuery" in plan else ""
        by_index = dataset.to_table(columns=["id"], filter=sql)["id"].to_pylist()
        by_scan = dataset.scanner(columns=["id"], filter=sql, use_scalar_index=False).to_table()["id"].to_pylist()
        out.append({"index": name, "by_index": sorted(by_index), "by_scan": sorted(by_scan)})
    return out


def describe(path):
    dataset = lance.dataset(path)
    return {
        "version": dataset.version,
        "fragments": [f.fragment_id for f in dataset.get_fragments()],
        "rows": dataset.count_rows(),
        "indexes": {
            i.name: {"rows": i.num_rows_indexed, "covers": sorted(f for s in i.segments for f in s.fragment_ids)}
            for i in dataset.describe_indices()
        },
    }


OPERATIONS = {f.__name__: f for f in (create, append, index, delete, compact, plan, finish, extend, touch, remap, query, describe)}


def main():
    path = sys.argv[1]
    for line in sys.stdin:
        request = json.loads(line)
        operation = OPERATIONS[request.pop("op")]
        try:
            answer = {"answer": operation(path, **request)}
        except Exception as error:  # the test judges it
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
