package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/predicate"
	"lancesql/lance/rowaddr"
	"lancesql/lance/schema"
)

// RowAddressColumn is the name of the UInt64 column with the address of each row (rowaddr.Addr).
const RowAddressColumn = "_rowaddr"

// ScanOptions says what a scan of live rows returns. The zero value is every row with all columns.
type ScanOptions struct {
	Columns []string // top-level columns in output order; nil: all of them, in schema order
	// NoColumns asks for batches that only count rows; Columns must be nil.
	NoColumns bool
	// Filter keeps the rows for which it is true; nil: all. Its column numbers are positions in Schema().Fields.
	Filter    predicate.Expr
	Limit     int64 // rows at most; 0: no limit
	Offset    int64 // rows that pass the filter and are left out at the start
	BatchRows int   // rows read at a time, an upper bound of what a batch holds; 0: 8192
	// RowAddress appends the column _rowaddr.
	RowAddress bool
}

// Scan reads the live rows of the version in fragment order. fieldIDs as in ScanFragment.
func (d *Dataset) Scan(ctx context.Context, fieldIDs []int32) (arrowx.BatchReader, error) {
	return d.liveScan(ctx, d.state.fragments, fieldIDs, ScanOptions{})
}

// Rows reads live rows in fragment order. Batches are never empty; the caller releases them and closes the reader. ctx
// spans the whole scan. errs.ErrInvalid for columns that do not exist or a filter that does not fit the schema.
func (d *Dataset) Rows(ctx context.Context, o ScanOptions) (arrowx.BatchReader, error) {
	if o.Limit < 0 || o.Offset < 0 || o.BatchRows < 0 || o.NoColumns && o.Columns != nil {
		return nil, fmt.Errorf("scan: negative limit, offset or batch size, or columns and none: %w", errs.ErrInvalid)
	}
	ids := []int32{}
	if !o.NoColumns {
		var err error
		if ids, err = d.columnIDs(o.Columns); err != nil {
			return nil, fmt.Errorf("scan: %w", err)
		}
	}
	return d.liveScan(ctx, d.state.fragments, ids, o)
}

// columnIDs resolves names of top-level columns; nil stands for all.
func (d *Dataset) columnIDs(names []string) ([]int32, error) {
	if names == nil {
		return d.FieldIDs(), nil
	}
	ids := make([]int32, len(names))
	for i, name := range names {
		f := d.state.schema.FieldByName(name)
		if f == nil {
			return nil, fmt.Errorf("no column %q in version %d: %w", name, d.Version(), errs.ErrInvalid)
		}
		ids[i] = f.ID
	}
	return ids, nil
}

// liveScan chains fragments, drops deleted rows and those the filter does not keep.
type liveScan struct {
	ctx     context.Context // of the call that made the scan
	d       *Dataset
	filter  predicate.Expr
	read    []int32 // fields read: the wanted ones, then those only the filter needs
	at      map[int]int
	wanted  int
	schema  *arrow.Schema // of the output
	batch   int
	address bool
	skip    int64 // rows still to leave out
	left    int64 // rows still to give, if limited
	limited bool

	rest     []*Fragment
	fragment *Fragment
	current  FragmentReader  // nil between fragments
	deleted  *roaring.Bitmap // of the current fragment, nil if none
}

func (d *Dataset) liveScan(ctx context.Context, fragments []*Fragment, ids []int32, o ScanOptions) (*liveScan, error) {
	fields, err := d.topFields(ids)
	if err != nil {
		return nil, fmt.Errorf("scan: %w", err)
	}
	out, err := schema.ArrowSchema(fields, d.state.schema.Metadata)
	if err != nil {
		return nil, fmt.Errorf("scan: %w", err)
	}
	s := &liveScan{ctx: ctx, d: d, filter: o.Filter, read: slices.Clone(ids), wanted: len(ids), schema: out, batch: o.BatchRows,
		address: o.RowAddress, skip: o.Offset, left: o.Limit, limited: o.Limit > 0, rest: fragments}
	if o.RowAddress {
		md := out.Metadata()
		s.schema = arrow.NewSchema(append(out.Fields(), arrow.Field{Name: RowAddressColumn, Type: arrow.PrimitiveTypes.Uint64}), &md)
	}
	if o.Filter == nil {
		return s, nil
	}
	s.at = make(map[int]int)
	for _, c := range predicate.Columns(o.Filter) {
		if c < 0 || c >= len(d.state.schema.Fields) {
			return nil, fmt.Errorf("scan: filter on column %d of %d: %w", c, len(d.state.schema.Fields), errs.ErrInvalid)
		}
		id := d.state.schema.Fields[c].ID
		i := slices.Index(s.read, id)
		if i < 0 {
			i = len(s.read)
			s.read = append(s.read, id)
		}
		s.at[c] = i
	}
	return s, nil
}

// Schema implements arrowx.BatchReader.
func (s *liveScan) Schema() *arrow.Schema { return s.schema }

// Next implements arrowx.BatchReader.
func (s *liveScan) Next() (arrow.RecordBatch, error) {
	for {
		first, rec, err := s.nextPhysical()
		if err != nil {
			return nil, err
		}
		live, err := s.kept(first, rec)
		rec.Release()
		if err != nil {
			return nil, fmt.Errorf("scan fragment %d: %w", s.fragment.ID, err)
		}
		if live == nil {
			continue
		}
		return live, nil
	}
}

// nextPhysical returns the next rows as they are stored; io.EOF when no more are wanted.
func (s *liveScan) nextPhysical() (uint64, arrow.RecordBatch, error) {
	for {
		if s.limited && s.left == 0 {
			return 0, nil, io.EOF
		}
		if s.current == nil {
			if len(s.rest) == 0 {
				return 0, nil, io.EOF
			}
			if err := s.open(s.rest[0]); err != nil {
				return 0, nil, err
			}
			s.rest = s.rest[1:]
		}
		first, rec, err := s.current.Next()
		if !errors.Is(err, io.EOF) {
			return first, rec, err
		}
		err = s.current.Close()
		s.current = nil
		if err != nil {
			return 0, nil, err
		}
	}
}

func (s *liveScan) open(f *Fragment) (err error) {
	if s.deleted, err = s.d.Deletions(s.ctx, f); err != nil {
		return err
	}
	s.fragment = f
	s.current, err = s.d.ScanFragment(s.ctx, f, s.read, 0, f.PhysicalRows, s.batch)
	return err
}

// kept returns the rows of rec that are wanted, nil if none is. rec is borrowed; its first row has offset first.
func (s *liveScan) kept(first uint64, rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	mask, err := s.mask(first, rec)
	if err != nil {
		return nil, err
	}
	n := rec.NumRows()
	if mask != nil {
		n = int64(mask.Count())
	}
	from := min(s.skip, n)
	s.skip -= from
	to := n
	if s.limited {
		to = min(n, from+s.left)
		s.left -= to - from
	}
	if from == to {
		return nil, nil
	}
	out, err := s.output(first, rec)
	if err != nil {
		return nil, err
	}
	defer func() { out.Release() }()
	if mask != nil && !mask.All() {
		live, err := arrowx.FilterByMask(s.d.env.alloc, out, mask)
		if err != nil {
			return nil, err
		}
		out.Release()
		out = live
	}
	return out.NewSlice(from, to), nil
}

// mask is the set of rows of rec that are live and pass the filter; nil if all are.
func (s *liveScan) mask(first uint64, rec arrow.RecordBatch) (*arrowx.Mask, error) {
	n := int(rec.NumRows())
	var mask *arrowx.Mask
	if s.filter != nil {
		var err error
		if mask, err = predicate.Eval(s.filter, func(c int) arrow.Array { return rec.Column(s.at[c]) }, n); err != nil {
			return nil, err
		}
	}
	if s.deleted == nil || !s.deleted.IntersectsWithInterval(first, first+uint64(n)) {
		return mask, nil
	}
	if mask == nil {
		mask = arrowx.NewFullMask(n)
	}
	it := s.deleted.Iterator()
	it.AdvanceIfNeeded(uint32(first))
	for it.HasNext() {
		o := uint64(it.Next())
		if o >= first+uint64(n) {
			break
		}
		mask.Clear(int(o - first))
	}
	return mask, nil
}

// output is rec under the output schema: without the columns only the filter reads, with addresses where wanted.
func (s *liveScan) output(first uint64, rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	cols := slices.Clone(rec.Columns()[:s.wanted])
	if s.address {
		b := array.NewUint64Builder(s.d.env.alloc)
		defer b.Release()
		b.Reserve(int(rec.NumRows()))
		base := uint64(rowaddr.New(uint32(s.fragment.ID), uint32(first)))
		for i := range uint64(rec.NumRows()) {
			b.UnsafeAppend(base + i)
		}
		a := b.NewArray()
		defer a.Release()
		cols = append(cols, a)
	}
	return array.NewRecordBatch(s.schema, cols, rec.NumRows()), nil
}

// Close implements arrowx.BatchReader.
func (s *liveScan) Close() error {
	s.rest = nil
	if s.current != nil {
		err := s.current.Close()
		s.current = nil
		return err
	}
	return nil
}
