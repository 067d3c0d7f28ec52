"""Changes a table through pylance, for tests that read the result back.

    table_ops.py PATH OPERATION...
    table_ops.py --serve

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

With --serve, each line of standard input is a JSON object {"path", "op", ...} (class Served says which there are), answered by
one line {"answer": ...} or {"error": TEXT, "kind": "retry" | "never" | "schema" | "other"}.
"""

import datetime
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


TYPES = {"int32": pa.int32(), "int64": pa.int64(), "utf8": pa.string(), "large_utf8": pa.large_string(), "float64": pa.float64()}


def spelled(kind):
    return next((name for name, t in TYPES.items() if t == kind), str(kind))


def cells(column):
    return [None if v is None else repr(v) if isinstance(v, float) else str(v) for v in column.to_pylist()]


class Served:
    """The operations of --serve. Each opens the newest version unless the request has "version"."""

    def __init__(self, request):
        self.request = request
        self.path = request["path"]

    def open(self):
        return lance.dataset(self.path, version=self.request.get("version"))

    def table(self, schema):
        """The request's rows, lists of cells in schema order; cells left out at the end are null."""
        rows = [row + [None] * (len(schema) - len(row)) for row in self.request["rows"]]
        columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
        return pa.Table.from_arrays(columns, schema=schema)

    def create(self):
        fields = [pa.field(name, TYPES[kind], nullable) for name, kind, nullable in self.request["schema"]]
        lance.write_dataset(
            self.table(pa.schema(fields)),
            self.path,
            mode=self.request.get("mode", "create"),
            data_storage_version=self.request.get("data_version"),
            enable_v2_manifest_paths=not self.request.get("v1", False),
        )

    def append(self):
        dataset = self.open()
        dataset.insert(self.table(dataset.schema), max_rows_per_file=self.request.get("fragment_rows", 1 << 20))

    def delete(self):
        self.open().delete(self.request["where"])

    def update(self):
        self.open().update(self.request["set"], where=self.request["where"])

    def merge(self):
        dataset = self.open()
        merge = dataset.merge_insert("id")
        if self.request["matched"]:
            merge = merge.when_matched_update_all()
        if self.request["not_matched"]:
            merge = merge.when_not_matched_insert_all()
        if self.request["by_source"]:
            merge = merge.when_not_matched_by_source_delete()
        merge.execute(self.table(dataset.schema))

    def add(self):
        dataset = self.open()
        if self.request["sql"] is None:
            dataset.add_columns(pa.field(self.request["name"], TYPES[self.request["type"]]))
        else:
            dataset.add_columns({self.request["name"]: self.request["sql"]})

    def drop(self):
        self.open().drop_columns(self.request["names"])

    def rename(self):
        self.open().alter_columns({"path": self.request["name"], "name": self.request["to"]})

    def cast(self):
        self.open().alter_columns({"path": self.request["name"], "data_type": TYPES[self.request["type"]]})

    def compact(self):
        self.open().optimize.compact_files(target_rows_per_fragment=self.request["fragment_rows"])

    def index(self):
        self.open().create_scalar_index(self.request["column"], self.request["type"], name=self.request["name"], replace=True)

    def drop_index(self):
        self.open().drop_index(self.request["name"])

    def extend_indexes(self):
        self.open().optimize.optimize_indices()

    def tag(self):
        dataset = self.open()
        dataset.tags.create(self.request["name"], self.request["of"])

    def untag(self):
        self.open().tags.delete(self.request["name"])

    def restore(self):
        self.open().restore()

    def cleanup(self):
        self.open().cleanup_old_versions(datetime.timedelta(0), error_if_tagged_old_versions=False)

    def look(self):
        """Validates the table and says everything a test compares; "filters" are answered with the ids they keep."""
        dataset = self.open()
        dataset.validate()
        table = dataset.to_table()
        if dataset.count_rows() != table.num_rows:
            raise ValueError(f"count_rows() is {dataset.count_rows()}, a scan has {table.num_rows}")
        columns = [cells(table.column(i)) for i in range(table.num_columns)]
        return {
            "version": dataset.version,
            "schema": [[f.name, spelled(f.type), f.nullable] for f in table.schema],
            "rows": [list(row) for row in zip(*columns)],
            "filtered": [cells(dataset.to_table(columns=["id"], filter=sql).column(0)) for sql in self.request["filters"]],
            "indexes": sorted(i.name for i in dataset.describe_indices()),
            "tags": {name: tag["version"] for name, tag in dataset.tags.list().items()},
            "versions": [v["version"] for v in dataset.versions()],
            "fragments": [f.fragment_id for f in dataset.get_fragments()],
        }

    OPERATIONS = (
        "create append delete update merge add drop rename cast compact index drop_index extend_indexes tag untag restore cleanup look"
    ).split()


def kind_of(error):
    text = str(error)
    if "ncompatible" in text:
        return "never"
    if "ommit conflict" in text or "ommit contention" in text or "Too many concurrent writers" in text:
        return "retry"
    if "different schema" in text or "fields did not match" in text:
        return "schema"
    return "other"


def serve():
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["op"] not in Served.OPERATIONS:
                raise ValueError(f"unknown operation {request['op']}")
            answer = {"answer": getattr(Served(request), request["op"])()}
        except Exception as error:
            answer = {"error": str(error), "kind": kind_of(error)}
        print(json.dumps(answer, ensure_ascii=False), flush=True)


def main():
    if sys.argv[1:] == ["--serve"]:
        serve()
        return
    path = sys.argv[1]
    for operation in sys.argv[2:]:
        run(path, operation)
    dataset = lance.dataset(path)
    dataset.validate()
    names = sorted({index.name for index in dataset.describe_indices()})
    json.dump({"version": dataset.version, "count": dataset.count_rows(), "indices": names}, sys.stdout)


if __name__ == "__main__":
    main()
