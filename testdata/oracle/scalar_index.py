"""Makes and checks tables with scalar indexes through pylance, for tests of indexes/.

    scalar_index.py make PATH KIND ROWS [--golden]
    scalar_index.py check PATH KIND
    scalar_index.py extend PATH
    scalar_index.py compact PATH

make      writes a table with a column per type, values that are easy to get wrong among them, and an index of KIND on each,
          then appends rows that no index covers and deletes some. The columns are called after their types.
check     runs filters over every column that has an index of KIND, with the index and without, and prints one JSON object
          {column: "ok" | TEXT}. A column is ok if the answers are equal and the plans with the index use it.
extend    brings every index up to date with all fragments.
compact   compacts the fragments; indexes are remapped by the library.
"""

import datetime
import decimal
import json
import math
import random
import struct
import sys

import lance
import pyarrow as pa

TYPES = {
    "bool": pa.bool_(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(),
    "float32": pa.float32(), "float64": pa.float64(), "utf8": pa.string(), "large_utf8": pa.large_string(),
    "binary": pa.binary(), "large_binary": pa.large_binary(), "fixed5": pa.binary(5), "date32": pa.date32(),
    "date64": pa.date64(), "time32": pa.time32("s"), "time64": pa.time64("us"), "timestamp_us": pa.timestamp("us"),
    "timestamp_ns": pa.timestamp("ns"), "timestamp_tz": pa.timestamp("ms", tz="UTC"), "duration": pa.duration("ms"),
    "decimal128": pa.decimal128(20, 3), "decimal256": pa.decimal256(60, 2),
}


def edges(name, kind):
    if pa.types.is_boolean(kind):
        return [False, True]
    if pa.types.is_signed_integer(kind):
        top = 1 << (kind.bit_width - 1)
        return [-top, -1, 0, 1, top - 1]
    if pa.types.is_unsigned_integer(kind):
        return [0, 1, 1 << (kind.bit_width - 1), (1 << kind.bit_width) - 1]
    if pa.types.is_floating(kind):
        return [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan, struct.unpack("<d", b"\1\0\0\0\0\0\xf8\xff")[0], 1e30]
    if name in ("utf8", "large_utf8"):
        return ["", "\0", "a", "a\0", "ab", "é", "12345678", "123456789", "x" * 3000, "x" * 3000 + "y"]
    if name in ("binary", "large_binary"):
        return [b"", b"\0", b"\0\0", b"\xff", b"abc", b"x" * 3000]
    if name == "fixed5":
        return [b"\0" * 5, b"\xff" * 5]
    if pa.types.is_decimal(kind):
        return [decimal.Decimal(s) for s in ("-1", "0", "0.01", "12345678901234567.12", "-12345678901234567.12")]
    return []


def number(name, kind, n):
    if pa.types.is_boolean(kind):
        return n % 2 == 0
    if pa.types.is_unsigned_integer(kind):
        return n + 100
    if pa.types.is_floating(kind):
        return n / 2
    if name in ("utf8", "large_utf8"):
        return f"value {n}"
    if name in ("binary", "large_binary"):
        return b"value %d" % n
    if name == "fixed5":
        return b"%05d" % (n + 1000)
    if pa.types.is_decimal(kind):
        return decimal.Decimal(n) / 4
    if name == "date64":
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=n)
    if name == "date32":
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=n)
    if name in ("time32", "time64"):
        return datetime.time(0, 10 + n // 60, n % 60)
    if pa.types.is_timestamp(kind):
        zone = datetime.timezone.utc if kind.tz else None
        return datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(seconds=n)
    if pa.types.is_duration(kind):
        return datetime.timedelta(seconds=n)
    return n


def table(rows, rng, first, only):
    columns = {"id": pa.array(range(first, first + rows), pa.int64())}
    for name in only:
        kind = TYPES[name]
        special = edges(name, kind)
        values = []
        for _ in range(rows):
            if rng.random() < 0.1:
                values.append(None)
            elif special and rng.random() < 0.2:
                values.append(rng.choice(special))
            else:
                values.append(number(name, kind, rng.randrange(-60, 60)))
        columns[name] = pa.array(values, kind)
    return pa.table(columns)


def make(path, kind, rows, golden):
    rng = random.Random(11)
    names = ["int64", "float64", "utf8", "decimal128", "timestamp_us"] if golden else list(TYPES)
    lance.write_dataset(table(rows, rng, 0, names), path, max_rows_per_file=max(1, rows * 2 // 3))
    for name in names:
        lance.dataset(path).create_scalar_index(name, kind, name=name + "_idx")
    lance.dataset(path).insert(table(max(1, rows // 4), rng, rows, names))
    lance.dataset(path).delete("id % 7 = 3")


def literal(name, kind, value):
    if value is None:
        raise ValueError("no literal for null")
    if pa.types.is_boolean(kind):
        return str(value).lower()
    if pa.types.is_floating(kind):
        sql = "double" if kind == pa.float64() else "float"
        return f"cast('{value!r}' as {sql})"
    if pa.types.is_integer(kind):
        return str(value)
    if pa.types.is_decimal256(kind):
        return f"arrow_cast('{value}', 'Decimal256({kind.precision}, {kind.scale})')"
    if pa.types.is_duration(kind):
        return f"arrow_cast({value // datetime.timedelta(milliseconds=1)}, 'Duration(Millisecond)')"
    if pa.types.is_time(kind):
        return f"arrow_cast('{value}', '{'Time32(Second)' if kind == pa.time32('s') else 'Time64(Microsecond)'}')"
    if pa.types.is_decimal(kind):
        return f"cast('{value}' as decimal({kind.precision},{kind.scale}))"
    if name in ("utf8", "large_utf8"):
        return "'" + value.replace("'", "''") + "'"
    if name in ("binary", "large_binary", "fixed5"):
        return f"x'{value.hex()}'"
    if pa.types.is_date(kind):
        return f"date '{value}'"
    if pa.types.is_timestamp(kind):
        return f"timestamp '{value.strftime('%Y-%m-%d %H:%M:%S')}'"
    return None


def filters(name, kind, rng, values):
    yield f"{name} is null"
    yield f"{name} is not null"
    known = [v for v in values if v is not None and literal(name, kind, v) is not None]
    if not known:
        return
    for _ in range(3):
        a, b, c = (literal(name, kind, rng.choice(known)) for _ in range(3))
        yield f"{name} = {a}"
        if pa.types.is_boolean(kind):
            continue
        yield f"{name} < {a}"
        yield f"{name} >= {a}"
        yield f"{name} > {a} and {name} <= {b}"
        yield f"{name} in ({a}, {b}, {c})"
        yield f"not ({name} <= {a})"
    if pa.types.is_floating(kind):
        for special in ("NaN", "inf", "-inf", "0.0", "-0.0"):
            a = f"cast('{special}' as {'double' if kind == pa.float64() else 'float'})"
            yield from (f"{name} {op} {a}" for op in ("=", "<", "<=", ">", ">="))


def check_column(dataset, name, kind, index_kind):
    rng = random.Random(name)
    values = dataset.to_table(columns=[name]).column(0).to_pylist()
    used = ran = 0
    for sql in filters(name, kind, rng, values):
        if "\0" in sql:
            continue
        ran += 1
        try:
            without = dataset.to_table(columns=["id"], filter=sql, use_scalar_index=False).column(0).to_pylist()
        except Exception:
            ran -= 1
            continue  # not a comparison that the library's SQL has for this type
        with_index = dataset.to_table(columns=["id"], filter=sql, use_scalar_index=True).column(0).to_pylist()
        if sorted(with_index) != sorted(without):
            return f"{sql[:200]}: {len(with_index)} rows with the index, {len(without)} without"
        plan = dataset.scanner(columns=["id"], filter=sql).explain_plan(True)
        if "ScalarIndexQuery" in plan or name + "_idx" in plan:
            used += 1
    enough = ran > (2 if any(v is not None for v in values) else 1)
    return "ok" if used == ran and enough else f"{used} of {ran} plans use the index"


def check(path, index_kind):
    dataset = lance.dataset(path)
    dataset.validate()
    out = {}
    for index in dataset.describe_indices():
        name = index.name.removesuffix("_idx")
        if name in TYPES and index.index_type.upper() == index_kind.upper():
            out[name] = check_column(dataset, name, dataset.schema.field(name).type, index_kind)
    json.dump(out, sys.stdout)


def main():
    command, path = sys.argv[1:3]
    if command == "make":
        make(path, sys.argv[3], int(sys.argv[4]), "--golden" in sys.argv)
    elif command == "check":
        check(path, sys.argv[3])
    elif command == "extend":
        lance.dataset(path).optimize.optimize_indices()
    elif command == "compact":
        lance.dataset(path).optimize.compact_files()
    else:
        raise SystemExit(f"scalar_index: unknown command {command}")


if __name__ == "__main__":
    main()
