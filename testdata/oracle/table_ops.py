"""Changes a table through pylance, for tests that read the result back.

    table_ops.py PATH OPERATION...

PATH is a dataset directory with columns id (int64) and name (utf8). Operations run in order, each as one commit:

    append:A:B       rows with ids A to B-1, names "py<id>"; other columns are null, or 0 where they must not be
    delete:SQL       rows for which SQL holds
    update:SQL       name = 'updated' where SQL holds
    index:NAME       a BTREE index called NAME on id
    create:A:B       a new dataset with those rows
    stable:A:B       the same with stable row ids
    v1:A:B           the same with the older manifest names
    add:NAME         a column NAME = id * 2
    addnull:NAME     a column NAME of nulls
    compact          compaction of fragments
    tag:NAME         a tag on the newest version

The answer on standard output is one JSON object {"version": V, "count": N, "indices": [names]}.
"""

import json
import sys

import lance
import pyarrow as pa


def rows(first, last):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    ids = range(int(first), int(last))
    return pa.table({"id": list(ids), "name": [f"py{i}" for i in ids]}, schema=schema)


def run(path, operation):
    kind, _, rest = operation.partition(":")
    if kind in ("create", "stable", "v1"):
        lance.write_dataset(
            rows(*rest.split(":")), path, enable_stable_row_ids=kind == "stable", enable_v2_manifest_paths=kind != "v1"
        )
        return
    dataset = lance.dataset(path)
    if kind == "append":
        table = rows(*rest.split(":"))
        for field in dataset.schema:
            if field.name not in table.schema.names:
                values = [None if field.nullable else 0] * table.num_rows
                table = table.append_column(field, pa.array(values, field.type))
        dataset.insert(table.cast(dataset.schema))
    elif kind == "delete":
        dataset.delete(rest)
    elif kind == "update":
        dataset.update({"name": "'updated'"}, where=rest)
    elif kind == "index":
        dataset.create_scalar_index("id", "BTREE", name=rest)
    elif kind == "add":
        dataset.add_columns({rest: "id * 2"})
    elif kind == "addnull":
        dataset.add_columns(pa.field(rest, pa.int32()))
    elif kind == "compact":
        dataset.optimize.compact_files()
    elif kind == "tag":
        dataset.tags.create(rest, dataset.version)
    else:
        raise SystemExit(f"table_ops: unknown operation {operation}")


def main():
    path = sys.argv[1]
    for operation in sys.argv[2:]:
        run(path, operation)
    dataset = lance.dataset(path)
    dataset.validate()
    names = sorted({index.name for index in dataset.describe_indices()})
    json.dump({"version": dataset.version, "count": dataset.count_rows(), "indices": names}, sys.stdout)


if __name__ == "__main__":
    main()
