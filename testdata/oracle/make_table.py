"""Writes a small table of every flat type with pylance, to test the dump scripts on: make_table.py DIRECTORY TABLE."""

import datetime
import decimal
import sys

import lance
import pyarrow as pa

columns = {
    "i32": pa.array([1, None, -3], pa.int32()),
    "u64": pa.array([2**64 - 1, 0, None], pa.uint64()),
    "f32": pa.array([0.1, None, -1e30], pa.float32()),
    "f64": pa.array([0.1, None, -1e300], pa.float64()),
    "b": pa.array([True, False, None], pa.bool_()),
    "dec": pa.array([decimal.Decimal("-1.50"), None, decimal.Decimal("99999999.99")], pa.decimal128(10, 2)),
    "wide": pa.array([decimal.Decimal(10) ** 40, None, decimal.Decimal(-7)], pa.decimal256(65, 0)),
    "d": pa.array([-1, None, 19000], pa.date32()),
    "ts": pa.array([-1, None, 253402300799999999], pa.timestamp("us")),
    "dur": pa.array([-1, None, 3020399000000], pa.duration("us")),
    "s": pa.array(["", None, "é€𝄞"], pa.utf8()),
    "x": pa.array([b"", None, b"\x00\xff"], pa.binary()),
    "fx": pa.array([b"abcd", None, b"\x00\x01\x02\x03"], pa.binary(4)),
}
table = pa.table(columns)
path = f"{sys.argv[1]}/{sys.argv[2]}.lance"
lance.write_dataset(table, path, data_storage_version="2.2")
lance.write_dataset(table.slice(0, 1), path, mode="append")
