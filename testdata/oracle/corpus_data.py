"""Seeded Arrow data for the format corpus: columns of every type in many shapes.

Everything is a function of a numpy generator, so that the same seed gives the same bytes. Values under nulls are
garbage on purpose: a reader must not look at them.
"""
import numpy as np
import pyarrow as pa

# Shapes of integer keys from which the values of fixed-width types are made.
SHAPES = ["const", "seq", "rand", "small", "lowcard", "sorted", "runs", "neg"]


def keys(rng, shape, n):
    """n uint64 keys of a shape."""
    if shape == "const":
        return np.full(n, 42, np.uint64)
    if shape == "seq":
        return np.arange(n, dtype=np.uint64)
    if shape == "rand":
        return rng.integers(0, 2**64, n, dtype=np.uint64)
    if shape == "small":
        return rng.integers(0, 100, n, dtype=np.uint64)
    if shape == "lowcard":
        return rng.integers(0, 2**64, 7, dtype=np.uint64)[rng.integers(0, 7, n)]
    if shape == "sorted":
        return np.cumsum(rng.integers(0, 1000, n, dtype=np.uint64)).astype(np.uint64)
    if shape == "runs":
        values = rng.integers(0, 2**64, max(1, n // 40) + 1, dtype=np.uint64)
        lengths = rng.integers(1, 400, len(values))
        out = np.repeat(values, lengths)
        return np.resize(out, n)
    if shape == "neg":
        return rng.integers(-50, 50, n, dtype=np.int64).view(np.uint64)
    raise ValueError(shape)


def buffer(a):
    return pa.py_buffer(np.ascontiguousarray(a).tobytes())


def bitmap(mask):
    return pa.py_buffer(np.packbits(mask, bitorder="little").tobytes())


def masks(rng, kind, n):
    """Validity of n rows: True is a value."""
    if kind == "none":
        return np.ones(n, bool)
    if kind == "some":
        return rng.random(n) >= 0.1
    if kind == "half":
        return rng.random(n) >= 0.5
    if kind == "most":
        return rng.random(n) >= 0.95
    if kind == "first":
        return np.arange(n) >= n // 2
    if kind == "all":
        return np.zeros(n, bool)
    raise ValueError(kind)


def with_nulls(arr, valid):
    """arr with the rows null where valid is False; what lies under them stays."""
    if valid.all():
        return arr
    assert arr.offset == 0
    t = arr.type
    if pa.types.is_dictionary(t):
        return pa.DictionaryArray.from_arrays(with_nulls(arr.indices, valid), arr.dictionary)
    children = None
    if pa.types.is_struct(t):
        children = [arr.field(i) for i in range(t.num_fields)]
    elif pa.types.is_map(t):
        children = [pa.StructArray.from_arrays([arr.keys, arr.items], fields=[t.key_field, t.item_field])]
    elif pa.types.is_nested(t):
        children = [arr.values]
    fixed = 1 if pa.types.is_struct(t) or pa.types.is_fixed_size_list(t) else 2
    if pa.types.is_string(t) or pa.types.is_binary(t) or pa.types.is_large_string(t) or pa.types.is_large_binary(t):
        fixed = 3
    bufs = [bitmap(valid)] + arr.buffers()[1:fixed]
    return pa.Array.from_buffers(t, len(arr), bufs, null_count=int((~valid).sum()), children=children)


def fixed(rng, t, shape, n):
    """A fixed-width array without nulls."""
    k = keys(rng, shape, n)
    if pa.types.is_boolean(t):
        return pa.Array.from_buffers(t, n, [None, bitmap((k >> np.uint64(3)) & np.uint64(1) == 1)])
    if pa.types.is_floating(t):
        return floats(t, shape, k, n)
    if pa.types.is_decimal(t) or pa.types.is_fixed_size_binary(t):
        width = t.bit_width // 8 if pa.types.is_decimal(t) else t.byte_width
        if shape == "rand":
            raw = rng.integers(0, 256, n * width, dtype=np.uint8)
        else:
            raw = np.zeros((n, max(width, 8)), np.uint8)
            raw[:, :8] = k.view(np.uint8).reshape(n, 8)
            if shape == "neg":  # sign extension
                raw[:, 8:] = np.where(k >> np.uint64(63), 255, 0).astype(np.uint8)[:, None]
            raw = raw[:, :width]
        return pa.Array.from_buffers(t, n, [None, buffer(raw)])
    width = t.bit_width // 8
    return pa.Array.from_buffers(t, n, [None, buffer(k.astype(f"u{width}"))])


def floats(t, shape, k, n):
    width = t.bit_width // 8
    if shape in ("rand", "lowcard", "runs"):  # bit patterns, NaN with payloads among them
        raw = (k >> np.uint64(64 - 8 * width)).astype(f"u{width}")
    else:
        with np.errstate(over="ignore"):
            raw = (k.view(np.int64).astype("f8") / 4).astype(f"f{width}")
        if shape == "small" and n > 8:
            raw[:5] = [np.nan, np.inf, -np.inf, -0.0, np.finfo(f"f{width}").tiny / 2]
    return pa.Array.from_buffers(t, n, [None, buffer(raw)])


LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789 -_", np.uint8)
WORDS = ["", "a", "red", "green", "orange", "a longer word of the set", "été", "日本語", "𝄞 clef", "x" * 40]
HOSTS = ["www.example.org", "shop.example.com", "cdn.example.net/assets"]
PATHS = ["products", "users", "images", "search?q=", "articles/2026/08"]

# Shapes of variable-width columns.
TEXTS = ["const", "seq", "short", "lowcard", "sorted", "url", "empty", "mid", "long"]


def pack(t, n, lengths, data):
    width = "i8" if pa.types.is_large_string(t) or pa.types.is_large_binary(t) else "i4"
    offsets = np.zeros(n + 1, width)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(t, n, [None, buffer(offsets), pa.py_buffer(data)])


def text(rng, t, shape, n):
    """A variable-width array without nulls."""
    binary = pa.types.is_binary(t) or pa.types.is_large_binary(t)
    alphabet = np.arange(256, dtype=np.uint8) if binary else LETTERS
    if shape in ("short", "mid", "long", "huge"):
        lo, hi = {"short": (0, 12), "mid": (20, 200), "long": (200, 1200), "huge": (40_000, 70_000)}[shape]
        lengths = rng.integers(lo, hi, n)
        return pack(t, n, lengths, rng.choice(alphabet, int(lengths.sum())).tobytes())
    if shape == "empty":
        lengths = np.where(rng.random(n) < 0.9, 0, rng.integers(1, 4, n))
        return pack(t, n, lengths, rng.choice(alphabet, int(lengths.sum())).tobytes())
    if shape == "const":
        values = ["the same"] * n
    elif shape == "prose":  # wide values that compress well
        values = [" ".join(rng.choice(WORDS, int(k))) for k in rng.integers(7000, 12_000, n)]
    elif shape == "seq":
        values = [f"item-{i:08d}" for i in range(n)]
    elif shape == "lowcard":
        values = [WORDS[i] for i in rng.integers(0, len(WORDS), n)]
    elif shape == "runs":
        values = [WORDS[i] for i in np.resize(np.repeat(rng.integers(0, len(WORDS), n // 30 + 2), 30), n)]
    elif shape == "sorted":
        values = [f"{i:x}" for i in np.sort(rng.integers(0, 2**40, n))]
    elif shape == "url":
        host, path = rng.integers(0, len(HOSTS), n), rng.integers(0, len(PATHS), n)
        number = rng.integers(0, 10**6, n)
        values = [f"https://{HOSTS[h]}/{PATHS[p]}/{i}.html" for h, p, i in zip(host, path, number)]
    else:
        raise ValueError(shape)
    raw = [v.encode() for v in values]
    return pack(t, n, [len(v) for v in raw], b"".join(raw))


def flat(rng, t, shape, n):
    if pa.types.is_null(t):
        return pa.nulls(n)
    if t in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        return text(rng, t, shape, n)
    if pa.types.is_dictionary(t):
        width = min(n, 9) or 1
        values = text(rng, t.value_type, "seq", width) if t.value_type in (pa.string(), pa.large_string()) else fixed(rng, t.value_type, "rand", width)
        indices = pa.array(keys(rng, shape, n) % np.uint64(width)).cast(t.index_type)
        return pa.DictionaryArray.from_arrays(indices, values)
    if pa.types.is_fixed_size_list(t):
        items = flat(rng, t.value_type, shape, n * t.list_size)
        if t.value_field.nullable and t.value_field.name == "nullable":
            items = with_nulls(items, masks(rng, "some", len(items)))
        return pa.Array.from_buffers(t, n, [None], children=[items])
    return fixed(rng, t, shape, n)


def lists(rng, t, lengths, items):
    width = "i8" if pa.types.is_large_list(t) else "i4"
    offsets = np.zeros(len(lengths) + 1, width)
    np.cumsum(lengths, out=offsets[1:])
    if pa.types.is_map(t):
        return pa.Array.from_buffers(t, len(lengths), [None, buffer(offsets)], children=[items])
    return pa.Array.from_buffers(t, len(lengths), [None, buffer(offsets)], children=[items])


def list_lengths(rng, shape, n):
    if shape == "short":
        return rng.integers(0, 6, n)
    if shape == "full":  # no empty list
        return rng.integers(1, 5, n)
    if shape == "ones":
        return np.ones(n, np.int64)
    if shape == "empty":
        return np.where(rng.random(n) < 0.95, 0, 2)
    if shape == "none":  # nothing but empty lists
        return np.zeros(n, np.int64)
    if shape == "long":  # rows larger than a chunk among small ones
        return np.where(rng.random(n) < 0.02, 3000, rng.integers(0, 3, n))
    raise ValueError(shape)


def nested(rng, t, shape, nulls, n):
    """An array of a possibly nested type; nullable fields inside get nulls of the kind `nulls`."""
    if pa.types.is_struct(t):
        children = [child(rng, f, shape, nulls, n) for f in t]
        return pa.Array.from_buffers(t, n, [None], children=children)
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        lengths = list_lengths(rng, shape, n)
        inner = "short" if shape == "long" else shape
        return lists(rng, t, lengths, child(rng, t.value_field, inner, nulls, int(lengths.sum())))
    if pa.types.is_map(t):
        lengths = list_lengths(rng, shape, n)
        total = int(lengths.sum())
        key = flat(rng, t.key_type, "seq", total)
        item = child(rng, t.item_field, shape, nulls, total)
        entries = pa.StructArray.from_arrays([key, item], fields=[t.key_field, t.item_field])
        return lists(rng, t, lengths, entries)
    if pa.types.is_fixed_size_list(t) and pa.types.is_nested(t.value_type) and not pa.types.is_fixed_size_list(t.value_type):
        return pa.Array.from_buffers(t, n, [None], children=[child(rng, t.value_field, shape, nulls, n * t.list_size)])
    variable = t in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    leaf = {"ones": "const", "full": "rand", "none": "seq", "empty": "lowcard", "long": "seq"}.get(shape, "small")
    if variable:
        leaf = {"ones": "const", "full": "url", "long": "mid"}.get(shape, "short")
    return flat(rng, t, leaf, n)


def child(rng, field, shape, nulls, n):
    arr = nested(rng, field.type, shape, nulls, n)
    if field.nullable and nulls != "none":
        return with_nulls(arr, masks(rng, nulls, n))
    return arr
