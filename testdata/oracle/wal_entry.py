"""Reads a WAL entry as an ordinary Arrow IPC stream with pyarrow and prints it as JSON: wal_entry.py FILE.

    {"metadata": {...}, "fields": [{"name", "type", "nullable", "metadata"}, ...], "batches": [[{column: text}, ...], ...]}

Cells are null or str() of the Python value.
"""

import json
import sys

import pyarrow as pa


def text(pairs):
    return {k.decode(): v.decode() for k, v in (pairs or {}).items()}


with open(sys.argv[1], "rb") as f, pa.ipc.open_stream(f) as stream:
    schema = stream.schema
    batches = list(stream)
    assert f.read() == b"", "bytes after the end marker"
for b in batches:
    b.validate(full=True)
print(
    json.dumps(
        {
            "metadata": text(schema.metadata),
            "fields": [
                {"name": f.name, "type": str(f.type), "nullable": f.nullable, "metadata": text(f.metadata)} for f in schema
            ],
            "batches": [
                [{k: None if v is None else str(v) for k, v in row.items()} for row in b.to_pylist()] for b in batches
            ],
        }
    )
)
