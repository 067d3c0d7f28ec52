"""Compares Arrow data bit by bit: NaN equals itself, -0.0 is not 0.0, and what lies under nulls does not count."""
import pyarrow as pa
import pyarrow.compute as pc


def combined(column):
    """A chunked array as one array without offset surprises."""
    if isinstance(column, pa.ChunkedArray):
        chunks = [c for c in column.chunks if len(c)]
        if len(chunks) == 1:
            return chunks[0]
        return pa.concat_arrays(chunks) if chunks else pa.array([], column.type)
    return column


def tables(want, got):
    """None, or what differs first."""
    if want.num_rows != got.num_rows:
        return f"{got.num_rows} rows, want {want.num_rows}"
    if want.column_names != got.column_names:
        return f"columns {got.column_names}, want {want.column_names}"
    for name in want.column_names:
        differs = arrays(combined(want.column(name)), combined(got.column(name)))
        if differs:
            return f"{name}: {differs}"
        if want.schema.field(name).nullable != got.schema.field(name).nullable:
            return f"{name}: nullable differs"
    return None


def normal(t):
    """The type without what does not change values: names and nullability of inner fields."""
    if pa.types.is_map(t):
        return ("map", normal(t.key_type), normal(t.item_type))
    if pa.types.is_struct(t):
        return ("struct", *[(f.name, normal(f.type)) for f in t])
    if pa.types.is_fixed_size_list(t):
        return ("fsl", t.list_size, normal(t.value_type))
    if pa.types.is_nested(t):
        return (t.id, normal(t.value_type))
    return t


def arrays(want, got):
    t = want.type
    if isinstance(got, pa.ExtensionArray):
        got = got.storage
    if normal(t) != normal(got.type):
        return f"type {got.type}, want {t}"
    if len(want) != len(got):
        return f"{len(got)} values, want {len(want)}"
    if pa.types.is_null(t) or len(want) == 0:
        return None
    if pa.types.is_dictionary(t):
        return arrays(pc.cast(want, t.value_type), pc.cast(got, t.value_type))
    if want.null_count != got.null_count or not want.is_valid().equals(got.is_valid()):
        at = first_difference(want.is_valid(), got.is_valid())
        return f"row {at}: null is {not got[at].is_valid}, want {not want[at].is_valid}" if at is not None else "null counts differ"
    if pa.types.is_struct(t):
        if want.null_count:
            keep = want.is_valid()
            want, got = want.filter(keep), got.filter(keep)
        for f, w, g in zip(t, want.flatten(), got.flatten()):
            differs = arrays(w, g)
            if differs:
                return f"{f.name}: {differs}"
        return None
    if pa.types.is_map(t):
        return lists(as_list(want), as_list(got))
    if pa.types.is_fixed_size_list(t):
        return arrays(want.flatten(), got.flatten())
    if pa.types.is_nested(t):
        return lists(want, got)
    if pa.types.is_floating(t):
        bits = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[t.bit_width]
        return arrays(want.view(bits), got.view(bits))
    if want.equals(got):
        return None
    at = first_difference(want, got)
    return None if at is None else f"row {at}: {str(got[at].as_py())[:80]!r}, want {str(want[at].as_py())[:80]!r}"


def first_difference(want, got):
    for i in range(len(want)):
        if not want[i].equals(got[i]):
            return i
    return None


def lists(want, got):
    differs = arrays(pc.list_value_length(want), pc.list_value_length(got))
    if differs:
        return f"lengths: {differs}"
    return arrays(want.flatten(), got.flatten())


def as_list(m):
    """A map array as the list of structs that it is."""
    entries = pa.struct([pa.field("key", m.type.key_type), pa.field("value", m.type.item_type)])
    buffers = m.buffers()[:2]
    children = pa.StructArray.from_arrays([m.keys, m.items], names=["key", "value"])
    return pa.Array.from_buffers(pa.list_(pa.field("entries", entries)), len(m), buffers, offset=m.offset, children=[children])
