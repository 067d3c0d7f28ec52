"""Makes tables with blob v2 columns and says what is in them.

    table_blobs.py DIRECTORY

DIRECTORY/new.lance has a declared blob column, old.lance one that the old metadata asks for, both of all sizes in several
fragments with deleted rows. To standard output, for each table, [{"id", "sha256": of the blob or null, "descriptor"}] of all
live rows.
"""

import hashlib
import json
import os
import sys

import lance
import numpy as np
import pyarrow as pa


def values(n):
    rng = np.random.default_rng(n)
    sizes = [0, 1, 50, 3000, 70_000, 200_000, 5_000_000]
    return [None if i % 6 == 4 else rng.bytes(sizes[i % 7]) for i in range(n)]


def make(path, field, convert):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), field])
    first = 0
    for n in (1, 15, 5):
        blobs = [None] * n if n == 5 else values(n)
        table = pa.table({"id": range(first, first + n), "b": convert(blobs)}, schema=schema)
        lance.write_dataset(table, path, mode="append" if first else "create", data_storage_version="2.2")
        first += n
    d = lance.dataset(path)
    d.delete("id = 3")
    table = d.to_table(with_row_id=True)
    out = []
    for id, row, descriptor in zip(*(table[c].to_pylist() for c in ("id", "_rowid", "b"))):
        digest = None
        if descriptor is not None:
            digest = hashlib.sha256(d.take_blobs("b", ids=[row])[0].readall()).hexdigest()
        out.append({"id": id, "sha256": digest, "descriptor": descriptor and list(descriptor.values())})
    return out


def main():
    def at(name):
        return os.path.join(sys.argv[1], name)

    old = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    print(json.dumps({
        "new.lance": make(at("new.lance"), lance.blob_field("b"), lance.blob_array),
        "old.lance": make(at("old.lance"), old, lambda blobs: pa.array(blobs, pa.large_binary())),
    }))


if __name__ == "__main__":
    main()
