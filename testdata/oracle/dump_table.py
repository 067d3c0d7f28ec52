"""Dumps tables through the reference implementation as canonical JSON on standard output.

    dump_table.py DIRECTORY TABLE...

DIRECTORY is a database directory; DIRECTORY/TABLE.lance is opened with pylance and, as table TABLE of a connection to
DIRECTORY, with lancedb; each older version is checked out. The answer is a list with one object per table:

    {"lance":   {"schema": [...], "count": N, "rows": [[...], ...]},
     "lancedb": {"schema": [...], "count": N, "rows": [[...], ...]},
     "versions": [{"version": V, "count": N}, ...], "fragments": F}

A schema entry is {"name", "type", "nullable"}; types are spelled as in canonical_type. A cell is null or a string: integers in
decimal, floats by repr, booleans "true"/"false", decimals in plain notation with their full scale, text as it is, bytes in
hexadecimal, dates, times and timestamps as the stored integer. Rows come in storage order.
"""

import json
import sys

import lance
import lancedb
import pyarrow as pa


def canonical_type(t):
    """One spelling for both bindings, e.g. int32, decimal128(10,2), timestamp[us], fixed_size_binary(16)."""
    if pa.types.is_boolean(t):
        return "bool"
    if pa.types.is_decimal(t):
        return f"decimal{t.bit_width}({t.precision},{t.scale})"
    if pa.types.is_timestamp(t):
        return f"timestamp[{t.unit}]" if t.tz is None else f"timestamp[{t.unit},{t.tz}]"
    if pa.types.is_time(t):
        return f"time{t.bit_width}[{t.unit}]"
    if pa.types.is_duration(t):
        return f"duration[{t.unit}]"
    if pa.types.is_date32(t):
        return "date32"
    if pa.types.is_fixed_size_binary(t):
        return f"fixed_size_binary({t.byte_width})"
    if pa.types.is_float16(t) or pa.types.is_float32(t) or pa.types.is_float64(t):
        return f"float{t.bit_width}"
    return {"string": "utf8", "large_string": "large_utf8"}.get(str(t), str(t))


def stored_integers(column):
    """Temporal columns as the integers they are stored as, so that no calendar library stands between."""
    width = column.type.bit_width
    return column.cast(pa.int32() if width == 32 else pa.int64())


def cells(column):
    t = column.type
    if pa.types.is_temporal(t):
        column = stored_integers(column)
        t = column.type
    values = column.to_pylist()
    if pa.types.is_boolean(t):
        return [None if v is None else ("true" if v else "false") for v in values]
    if pa.types.is_floating(t):
        return [None if v is None else repr(float(v)) for v in values]
    if pa.types.is_decimal(t):
        return [None if v is None else format(v, "f") for v in values]
    if pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t):
        return [None if v is None else v.hex() for v in values]
    return [None if v is None else str(v) for v in values]


def dump(table):
    columns = [cells(table.column(i)) for i in range(table.num_columns)]
    return {
        "schema": [{"name": f.name, "type": canonical_type(f.type), "nullable": f.nullable} for f in table.schema],
        "count": table.num_rows,
        "rows": [list(row) for row in zip(*columns)] if columns else [],
    }


def check(condition, text):
    if not condition:
        raise SystemExit(f"dump_table: {text}")


def dump_everything(directory, connection, listed, name):
    path = f"{directory}/{name}.lance"

    dataset = lance.dataset(path)
    dataset.validate()
    answer = {"lance": dump(dataset.to_table())}
    check(dataset.count_rows() == answer["lance"]["count"], "count_rows() differs from the rows of a scan")
    check(dataset.schema.names == [f["name"] for f in answer["lance"]["schema"]], "schema differs from a scan's schema")
    answer["fragments"] = len(dataset.get_fragments())

    check(name in listed, f"lancedb lists {listed}, not {name}")
    base = connection.open_table(name)
    # The base alone: after FLUSH TABLES it holds every row, and not every reader knows the write-ahead part.
    answer["lancedb"] = dump(base.search().use_lsm(False).limit(answer["lance"]["count"] + 1).to_arrow())
    check(base.count_rows() == answer["lancedb"]["count"], "lancedb's count_rows() differs from the rows of its scan")

    answer["versions"] = []
    for entry in dataset.versions():
        old = dataset.checkout_version(entry["version"])
        check(old.version == entry["version"], f"checkout of {entry['version']} gave {old.version}")
        rows = old.to_table().num_rows
        check(rows == old.count_rows(), f"version {old.version}: {rows} rows scanned, {old.count_rows()} counted")
        answer["versions"].append({"version": old.version, "count": rows})
    return answer


def main():
    directory = sys.argv[1]
    connection = lancedb.connect(directory)
    listed = connection.list_tables(limit=1000000).tables
    answers = [dump_everything(directory, connection, listed, name) for name in sys.argv[2:]]
    json.dump(answers, sys.stdout, ensure_ascii=False)


if __name__ == "__main__":
    main()
