package zonemap

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

// Columns of index files and seeds.
const (
	columnMin      = "min"
	columnMax      = "max"
	columnNulls    = "null_count"
	columnNaNs     = "nan_count"
	columnNegNaNs  = "negative_nan_count"
	columnFragment = "fragment_id"
	columnStart    = "zone_start"
	columnLength   = "zone_length"
)

// shape says which columns a batch of zone records has besides bounds, counts and lengths.
type shape struct {
	version  int32 // 1: with negative_nan_count, bounds never NaN
	location bool  // with fragment_id and zone_start: index files; seeds are of one file
}

// schemaOf is the schema of a batch of zone records.
// Spec: zone map index, "Storage Layout"; "Write seeds".
func (s shape) schema(t arrow.DataType) *arrow.Schema {
	fields := []arrow.Field{{Name: columnMin, Type: t, Nullable: true}, {Name: columnMax, Type: t, Nullable: true},
		{Name: columnNulls, Type: arrow.PrimitiveTypes.Uint32}, {Name: columnNaNs, Type: arrow.PrimitiveTypes.Uint32}}
	if s.version >= 1 {
		fields = append(fields, arrow.Field{Name: columnNegNaNs, Type: arrow.PrimitiveTypes.Uint32})
	}
	if s.location {
		fields = append(fields, arrow.Field{Name: columnFragment, Type: arrow.PrimitiveTypes.Uint64}, arrow.Field{Name: columnStart, Type: arrow.PrimitiveTypes.Uint64})
	}
	return arrow.NewSchema(append(fields, arrow.Field{Name: columnLength, Type: arrow.PrimitiveTypes.Uint64}), nil)
}

// record makes the batch of z; the caller releases it.
func (s shape) record(mem memory.Allocator, t arrow.DataType, z *zones) arrow.RecordBatch {
	lo, hi := z.bounds(mem, t, s.version)
	columns := []arrow.Array{lo, hi, numbers32(mem, z.nulls), numbers32(mem, z.nans)}
	if s.version >= 1 {
		columns = append(columns, numbers32(mem, z.negs))
	}
	if s.location {
		fragments := make([]uint64, len(z.fragment))
		for i, f := range z.fragment {
			fragments[i] = uint64(f)
		}
		columns = append(columns, numbers64(mem, fragments), numbers64(mem, z.start))
	}
	columns = append(columns, numbers64(mem, z.length))
	rec := array.NewRecordBatch(s.schema(t), columns, int64(z.len()))
	for _, c := range columns {
		c.Release()
	}
	return rec
}

func numbers32(mem memory.Allocator, v []uint32) arrow.Array {
	b := array.NewUint32Builder(mem)
	defer b.Release()
	b.AppendValues(v, nil)
	return b.NewArray()
}

func numbers64(mem memory.Allocator, v []uint64) arrow.Array {
	b := array.NewUint64Builder(mem)
	defer b.Release()
	b.AppendValues(v, nil)
	return b.NewArray()
}

// bounds makes the columns min and max. In version 0 the maximum of a zone with NaNs is NaN.
func (z *zones) bounds(mem memory.Allocator, t arrow.DataType, version int32) (lo, hi arrow.Array) {
	if z.form == formNone {
		return arrowx.Nulls(mem, t, z.len()), arrowx.Nulls(mem, t, z.len())
	}
	lob, hib := array.NewBuilder(mem, t), array.NewBuilder(mem, t)
	defer lob.Release()
	defer hib.Release()
	for i, f := range z.flags {
		var loKey, hiKey int64
		var loText, hiText string
		if z.form == formKey {
			loKey, hiKey = z.lo[i], z.hi[i]
		} else {
			loText, hiText = z.loText[i], z.hiText[i]
		}
		has := f&flagBounds != 0
		appendBound(lob, t, has, loKey, loText)
		if version == 0 && isFloat(t) && z.nans[i] > 0 {
			has, hiKey = true, floatKey(math.NaN())
		}
		appendBound(hib, t, has, hiKey, hiText)
	}
	return lob.NewArray(), hib.NewArray()
}

func appendBound(b array.Builder, t arrow.DataType, has bool, key int64, text string) {
	switch {
	case !has:
		b.AppendNull()
	case t.ID() == arrow.FLOAT16: // no cell of arrowx
		b.(*array.Float16Builder).Append(float16.New(float32(keyFloat(key))))
	default:
		// Invariant: cellOf gives the Go type that a builder of t takes.
		_ = arrowx.Append(b, cellOf(t, key, text))
	}
}

// decode appends the zones of rec, which has the columns of s in order, to z. Nothing of it is trusted: object names
// the file. The bounds of a column without a form are not looked at.
func (s shape) decode(object string, t arrow.DataType, rec arrow.RecordBatch, z *zones) error {
	n, at := int(rec.NumRows()), 0
	next := func() arrow.Array { at++; return rec.Column(at - 1) }
	var lo, hi arrow.Array
	if z.form != formNone {
		lo, hi = next(), next()
	}
	for _, c := range rec.Columns()[at:] {
		if c.NullN() > 0 {
			return errs.Corrupt(object, -1, "column %q has nulls", rec.ColumnName(at))
		}
	}
	nulls, nans := next().(*array.Uint32).Uint32Values(), next().(*array.Uint32).Uint32Values()
	negs := make([]uint32, n)
	if s.version >= 1 {
		negs = next().(*array.Uint32).Uint32Values()
	}
	if s.location {
		for _, f := range next().(*array.Uint64).Uint64Values() {
			if f > math.MaxUint32 {
				return errs.Corrupt(object, -1, "fragment %d", f)
			}
			z.fragment = append(z.fragment, uint32(f))
		}
		z.start = append(z.start, next().(*array.Uint64).Uint64Values()...)
	}
	lengths := next().(*array.Uint64).Uint64Values()
	if !s.location {
		var end uint64
		for _, l := range lengths {
			z.start = append(z.start, end)
			if end += l; l > math.MaxUint32 || end > math.MaxUint32+1 {
				return errs.Corrupt(object, -1, "zone of %d rows ends at %d", l, end)
			}
		}
	}
	z.length = append(z.length, lengths...)
	z.nulls, z.nans, z.negs = append(z.nulls, nulls...), append(z.nans, nans...), append(z.negs, negs...)
	for i := range n {
		if err := z.appendBounds(object, s.version, t, lo, hi, i, lengths[i] > uint64(nulls[i])+uint64(nans[i])); err != nil {
			return err
		}
		if !isFloat(t) && (nans[i] > 0 || negs[i] > 0) {
			return errs.Corrupt(object, -1, "%d NaNs in a column of type %s", nans[i], t)
		}
		if s.version == 0 && nans[i] > 0 {
			z.flags[len(z.flags)-1] |= flagUnsigned
		}
	}
	return nil
}

// appendBounds appends the bounds of zone i; others says that the counts leave rows that may be ordinary values.
func (z *zones) appendBounds(object string, version int32, t arrow.DataType, lo, hi arrow.Array, i int, others bool) error {
	missing := flags(0)
	if others {
		missing = flagUnknown
	}
	if z.form == formNone {
		z.flags = append(z.flags, missing)
		return nil
	}
	loKey, loText, hasLo := boundAt(t, lo, i)
	hiKey, hiText, hasHi := boundAt(t, hi, i)
	f := flagBounds
	if isFloat(t) {
		loNaN, hiNaN := hasLo && !ordinaryKey(loKey), hasHi && !ordinaryKey(hiKey)
		if version >= 1 && (loNaN || hiNaN) {
			return errs.Corrupt(object, -1, "zone %d has NaN as a bound", i)
		}
		if hiNaN { // version 0: any NaN takes the place of the maximum
			hiKey, f = keyPosInf, f|flagHidden
		}
		hasLo = hasLo && !loNaN
	}
	if !hasLo || !hasHi {
		f = missing | f&flagHidden
		loKey, hiKey, loText, hiText = 0, 0, "", ""
	}
	z.flags = append(z.flags, f)
	if z.form == formKey {
		z.lo, z.hi = append(z.lo, loKey), append(z.hi, hiKey)
	} else {
		z.loText, z.hiText = append(z.loText, loText), append(z.hiText, hiText)
	}
	return nil
}

func ordinaryKey(k int64) bool { return k >= keyNegInf && k <= keyPosInf }

// boundAt reads a bound; ok is false for NULL.
func boundAt(t arrow.DataType, a arrow.Array, i int) (key int64, text string, ok bool) {
	if a.IsNull(i) {
		return 0, "", false
	}
	if h, half := a.(*array.Float16); half {
		return floatKey(float64(h.Value(i).Float32())), "", true
	}
	return keyOf(t, arrowx.Value(a, i))
}
