"""Asks pylance what it makes of every pair of concurrent commits.

    table_conflicts.py DIRECTORY [NAME...]

Each scenario prepares a change of one table (three fragments of ten rows; columns id, name, x; index a on id and b on x, both
over the first two fragments; configuration k=v) on its newest version. For each pair the first scenario is prepared, the second
is committed, then the first. One line per pair on standard output:

    FIRST SECOND ok ROWS COLUMN,...     both landed; the rows and columns of the result
    FIRST SECOND retry                  a retryable conflict
    FIRST SECOND never                  incompatible, or no longer valid

lance/table/testdata/conflicts.txt is the output without names. Deletes and updates go through the high-level calls with no retries, because only these know which rows they touch.
"""

import os
import shutil
import sys
import uuid

import lance
import lance.file
import pyarrow as pa
from lance import LanceOperation as Op
from lance.fragment import DataFile, write_fragments

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string()), pa.field("x", pa.int32())])


def rows(first, last):
    ids = list(range(first, last))
    return pa.table({"id": ids, "name": [str(i) for i in ids], "x": pa.array(ids, pa.int32())}, schema=SCHEMA)


def make(path):
    dataset = lance.write_dataset(rows(0, 20), path, max_rows_per_file=10)
    dataset.create_scalar_index("id", "BTREE", name="a")
    dataset.create_scalar_index("x", "BTREE", name="b")
    dataset.insert(rows(20, 30))
    dataset.update_config({"k": "v"})
    return dataset.version


def commit(operation):
    """A scenario whose operation is built on the old version and committed as it is."""

    def prepare(dataset):
        built = operation(dataset)
        return lambda: lance.LanceDataset.commit(dataset.uri, built, read_version=dataset.version)

    return prepare


def call(change):
    """A scenario that is one call on the handle of the old version."""
    return lambda dataset: lambda: change(dataset)


def rewrite(index):
    def operation(dataset):
        fragment = dataset.get_fragment(index)
        new = write_fragments(fragment.to_table(), dataset.uri, schema=SCHEMA)
        new[0].id = 50 + index
        return Op.Rewrite([Op.RewriteGroup([fragment.metadata], new)], [])

    return commit(operation)


def replace(index, column, field):
    def operation(dataset):
        table = dataset.get_fragment(index).to_table(columns=[column])
        name = f"{uuid.uuid4()}.lance"
        with lance.file.LanceFileWriter(f"{dataset.uri}/data/{name}", table.schema) as writer:
            writer.write_batch(table)
        return Op.DataReplacement([Op.DataReplacementGroup(index, DataFile(name, [field], [0], 2, 2))])

    return commit(operation)


def delete(predicate):
    return call(lambda d: d.delete(predicate, conflict_retries=0))


def update(predicate):
    return call(lambda d: d.update({"name": "'u'"}, where=predicate, conflict_retries=0))


def index(name, column):
    return call(lambda d: d.create_scalar_index(column, "BTREE", name=name, replace=True))


def config(**changes):
    return commit(lambda d: Op.UpdateConfig(**changes))


def upsert(dataset):
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return merge.conflict_retries(0).execute(rows(500, 502))


SCENARIOS = {
    "append": commit(lambda d: Op.Append(write_fragments(rows(100, 105), d.uri, schema=SCHEMA))),
    "delete-1": delete("id = 1"),
    "delete-2": delete("id = 2"),
    "delete-1-2": delete("id = 1 or id = 2"),
    "delete-11": delete("id = 11"),
    "delete-fragment-0": delete("id < 10"),
    "update-1": update("id = 1"),
    "update-2": update("id = 2"),
    "update-11": update("id = 11"),
    "upsert-new": call(upsert),
    "overwrite": commit(lambda d: Op.Overwrite(SCHEMA, write_fragments(rows(200, 203), d.uri, schema=SCHEMA, mode="overwrite"))),
    "index-a-id": index("a", "id"),
    "index-c-id": index("c", "id"),
    "index-d-x": index("d", "x"),
    "rewrite-0": rewrite(0),
    "rewrite-1": rewrite(1),
    "rewrite-2": rewrite(2),
    "add": call(lambda d: d.add_columns({"twice": "x + x"})),
    "add-null": call(lambda d: d.add_columns(pa.field("n", pa.int32()))),
    "add-required": call(lambda d: d.add_columns({"r": "id * 2"})),
    "cast-name": call(lambda d: d.alter_columns({"path": "name", "data_type": pa.large_string()})),
    "restore": commit(lambda d: Op.Restore(1)),
    "drop-name": call(lambda d: d.drop_columns(["name"])),
    "drop-x": call(lambda d: d.drop_columns(["x"])),
    "rename-name": call(lambda d: d.alter_columns({"path": "name", "name": "renamed"})),
    "require-x": call(lambda d: d.alter_columns({"path": "x", "nullable": False})),
    "config-k": config(config_updates=Op.UpdateMap({"k": "2"})),
    "config-j": config(config_updates=Op.UpdateMap({"j": "2"})),
    "table-a": config(table_metadata_updates=Op.UpdateMap({"a": "2"})),
    "table-b": config(table_metadata_updates=Op.UpdateMap({"b": "2"})),
    "schema-a": config(schema_metadata_updates=Op.UpdateMap({"a": "2"})),
    "schema-b": config(schema_metadata_updates=Op.UpdateMap({"b": "2"})),
    "field-1": config(field_metadata_updates={1: Op.UpdateMap({"a": "2"})}),
    "field-2": config(field_metadata_updates={2: Op.UpdateMap({"a": "2"})}),
    "replace-0-x": replace(0, "x", 2),
    "replace-1-x": replace(1, "x", 2),
    "replace-0-name": replace(0, "name", 1),
}


def outcome(error):
    text = str(error)
    if "ncompatible" in text or "Invalid user input" in text or "does not exist" in text:
        return "never"
    if "ommit conflict" in text or "ommit contention" in text or "Too many concurrent writers" in text:
        return "retry"
    return "failed: " + text


def pair(base, path, first, second, version):
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(base, path)
    mine = SCENARIOS[first](lance.dataset(path, version=version))
    SCENARIOS[second](lance.dataset(path, version=version))()
    try:
        mine()
    except Exception as error:
        return outcome(error)
    result = lance.dataset(path)
    result.validate()
    return f"ok {result.count_rows()} {','.join(result.schema.names)}"


def main():
    base, path = os.path.join(sys.argv[1], "base.lance"), os.path.join(sys.argv[1], "pair.lance")
    names = sys.argv[2:] or list(SCENARIOS)
    version = make(base)
    for first in names:
        for second in SCENARIOS:
            print(first, second, pair(base, path, first, second, version), flush=True)


if __name__ == "__main__":
    main()
