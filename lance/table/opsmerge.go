package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lance/schema"
)

// MergeOptions says what MergeInsert does with the rows of the source. The zero value is an upsert by primary key.
type MergeOptions struct {
	On             []string // key columns, in the table and in the source; nil: the table's primary key
	KeepMatched    bool     // leave rows whose key is in the source as they are, instead of updating them
	SkipNotMatched bool     // leave out source rows whose key is not in the table, instead of inserting them
	// DeleteNotInSource deletes the rows whose key is not in the source.
	DeleteNotInSource bool
	FragmentRows      uint64 // as in WriteOptions
}

// MergeInsert merges the rows of a reader into the table by key, in one commit; it closes the reader. The source is held
// in memory. Its columns are matched by name; an updated row keeps the values of columns the source does not have, an
// inserted one gets NULL there. A key with a NULL matches nothing. A key that appears twice in the source is
// errs.ErrInvalid; if it appears in several rows of the table, all are updated. Updated rows move to new fragments. When
// nothing changes nothing is committed and d is returned. After a concurrent commit that touched the same rows, or
// added any, the merge is computed anew.
func (d *Dataset) MergeInsert(ctx context.Context, rows arrowx.BatchReader, o MergeOptions) (*Dataset, Changed, error) {
	defer rows.Close()
	next, done, err := d.mergeInsert(ctx, rows, o)
	if err != nil {
		return nil, Changed{}, fmt.Errorf("merge into %s: %w", d.root, err)
	}
	return next, done, nil
}

func (d *Dataset) mergeInsert(ctx context.Context, rows arrowx.BatchReader, o MergeOptions) (*Dataset, Changed, error) {
	src, err := d.readSource(ctx, rows, o)
	if err != nil {
		return nil, Changed{}, err
	}
	defer src.rows.Release()
	var done Changed
	next, err := d.recomputing(ctx, func(ctx context.Context, on *Dataset) (*Dataset, error) {
		if err := on.sameColumns(d); err != nil {
			return nil, err
		}
		m, err := on.newRowMerge(src, o)
		if err != nil {
			return nil, err
		}
		next, err := m.run(ctx)
		done = m.done
		return next, err
	})
	return next, done, err
}

// source is the input of a merge.
type source struct {
	rows   arrow.RecordBatch // in schema order of the columns it has
	fields []*schema.Field
	on     []string
	keys   []rowkey.Key
	at     map[rowkey.Key]int // row by key; rows with a NULL in the key are not in it
}

func (d *Dataset) readSource(ctx context.Context, rows arrowx.BatchReader, o MergeOptions) (*source, error) {
	p, err := planInput(d.state.schema, rows.Schema(), !o.SkipNotMatched)
	if err != nil {
		return nil, err
	}
	s := &source{fields: p.fields, on: o.On}
	if s.on == nil {
		for _, f := range d.state.schema.PrimaryKey() {
			s.on = append(s.on, f.Name)
		}
	}
	if len(s.on) == 0 {
		return nil, fmt.Errorf("no key columns: %w", errs.ErrInvalid)
	}
	if s.rows, err = d.readAll(ctx, rows, p); err != nil {
		return nil, err
	}
	if err := s.index(); err != nil {
		s.rows.Release()
		return nil, err
	}
	return s, nil
}

// readAll reads a source into one batch.
func (d *Dataset) readAll(ctx context.Context, rows arrowx.BatchReader, p *inputPlan) (arrow.RecordBatch, error) {
	parts := []arrow.RecordBatch{emptyBatch(d.env.alloc, p.out)}
	defer func() {
		for _, r := range parts {
			r.Release()
		}
	}()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rec, err := rows.Next()
		if errors.Is(err, io.EOF) {
			return arrowx.Concat(d.env.alloc, parts)
		}
		if err != nil {
			return nil, err
		}
		mapped, err := p.project(rec)
		rec.Release()
		if err != nil {
			return nil, err
		}
		parts = append(parts, mapped)
	}
}

// index fills the key map.
func (s *source) index() error {
	k, err := newKeyReader(s.rows.Schema(), s.on)
	if err != nil {
		return err
	}
	if s.keys, err = k.enc.Batch(s.rows, k.cols); err != nil {
		return err
	}
	s.at = make(map[rowkey.Key]int, len(s.keys))
	for i, key := range s.keys {
		if k.hasNull(s.rows, i) {
			continue
		}
		if _, twice := s.at[key]; twice {
			return fmt.Errorf("rows %d and %d of the source have the same key: %w", s.at[key], i, errs.ErrInvalid)
		}
		s.at[key] = i
	}
	return nil
}

// keyReader encodes the key columns of batches of one schema.
type keyReader struct {
	enc  *rowkey.Encoder
	cols []int
}

func newKeyReader(s *arrow.Schema, on []string) (*keyReader, error) {
	k := &keyReader{}
	var types []arrow.DataType
	for _, name := range on {
		at := s.FieldIndices(name)
		if len(at) == 0 {
			return nil, fmt.Errorf("key column %q is not there: %w", name, errs.ErrInvalid)
		}
		k.cols, types = append(k.cols, at[0]), append(types, s.Field(at[0]).Type)
	}
	var err error
	k.enc, err = rowkey.NewEncoder(types)
	return k, err
}

func (k *keyReader) hasNull(rec arrow.RecordBatch, row int) bool {
	return slices.ContainsFunc(k.cols, func(c int) bool { return rec.Column(c).IsNull(row) })
}

// rowMerge is one attempt of MergeInsert.
type rowMerge struct {
	d       *Dataset
	o       MergeOptions
	src     *source
	out     *arrow.Schema
	fromSrc []int    // by column of the table: the source's column, -1 if it has none
	read    []string // columns read from the table: the key, then those an updated row keeps
	matched []bool   // by row of the source
	change  *change
	rows    *rowWriter
	done    Changed
}

func (d *Dataset) newRowMerge(src *source, o MergeOptions) (*rowMerge, error) {
	m := &rowMerge{d: d, o: o, src: src, matched: make([]bool, src.rows.NumRows()), change: newChange(d), read: slices.Clone(src.on)}
	var err error
	if m.out, err = schema.ArrowSchema(d.state.schema.Fields, nil); err != nil {
		return nil, err
	}
	for _, f := range d.state.schema.Fields {
		at := slices.IndexFunc(src.fields, func(g *schema.Field) bool { return g.ID == f.ID })
		m.fromSrc = append(m.fromSrc, at)
		if at < 0 && !o.KeepMatched {
			m.read = append(m.read, f.Name)
		}
	}
	m.rows, err = d.rowWriter(d.state.schema.Fields, o.FragmentRows)
	return m, err
}

func (m *rowMerge) run(ctx context.Context) (*Dataset, error) {
	err := m.scan(ctx)
	if err == nil && !m.o.SkipNotMatched {
		err = m.insert(ctx)
	}
	var fresh []*Fragment
	if err == nil {
		fresh, err = m.rows.finish(ctx)
	}
	if err != nil || m.done == (Changed{}) {
		m.rows.abort(ctx)
		return m.d, err
	}
	ids := []uint32{}
	m.d.state.schema.Walk(func(f *schema.Field) { ids = append(ids, uint32(f.ID)) })
	return m.change.commitRows(ctx, m.rows, func(updated []*Fragment, removed []uint64) Operation {
		return Update{UpdatedFragments: updated, RemovedFragmentIDs: removed, NewFragments: fresh,
			FieldsForPreservingFragBitmap: ids, InsertsByKey: m.done.Inserted > 0}
	})
}

// scan goes over the table's rows: matched ones are replaced, unmatched ones deleted where that is asked for.
func (m *rowMerge) scan(ctx context.Context) error {
	r, err := m.d.Rows(ctx, ScanOptions{Columns: m.read, RowAddress: true})
	if err != nil {
		return err
	}
	defer r.Close()
	keys, err := newKeyReader(r.Schema(), m.src.on)
	if err != nil {
		return err
	}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = m.batch(ctx, rec, keys)
		rec.Release()
		if err != nil {
			return err
		}
	}
}

func (m *rowMerge) batch(ctx context.Context, rec arrow.RecordBatch, k *keyReader) error {
	keys, err := k.enc.Batch(rec, k.cols)
	if err != nil {
		return err
	}
	var mine, theirs, gone []int // rows of rec and of the source that match; rows of rec to take away
	for i, key := range keys {
		at, ok := m.src.at[key]
		if ok && !k.hasNull(rec, i) {
			m.matched[at] = true
			if !m.o.KeepMatched {
				mine, theirs, gone = append(mine, i), append(theirs, at), append(gone, i)
			}
			continue
		}
		if m.o.DeleteNotInSource {
			gone = append(gone, i)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	m.done.Updated += uint64(len(mine))
	m.done.Deleted += uint64(len(gone) - len(mine))
	addresses, err := arrowx.TakeArray(m.d.env.alloc, rec.Column(int(rec.NumCols())-1), gone)
	if err != nil {
		return err
	}
	defer addresses.Release()
	if err := m.change.mark(addresses); err != nil || len(mine) == 0 {
		return err
	}
	return m.write(ctx, len(mine), func(column int) (arrow.Array, error) {
		if at := m.fromSrc[column]; at >= 0 {
			return arrowx.TakeArray(m.d.env.alloc, m.src.rows.Column(at), theirs)
		}
		at := rec.Schema().FieldIndices(m.out.Field(column).Name)
		return arrowx.TakeArray(m.d.env.alloc, rec.Column(at[0]), mine)
	})
}

// insertRows is how many rows are inserted at a time.
const insertRows = 1 << 16

// insert writes the source's rows that matched nothing, in the source's order.
func (m *rowMerge) insert(ctx context.Context) error {
	var fresh []int
	for i, ok := range m.matched {
		if !ok {
			fresh = append(fresh, i)
		}
	}
	m.done.Inserted = uint64(len(fresh))
	for part := range slices.Chunk(fresh, insertRows) {
		err := m.write(ctx, len(part), func(column int) (arrow.Array, error) {
			if at := m.fromSrc[column]; at >= 0 {
				return arrowx.TakeArray(m.d.env.alloc, m.src.rows.Column(at), part)
			}
			return arrowx.Nulls(m.d.env.alloc, m.out.Field(column).Type, len(part)), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// write writes n rows whose columns are made one by one.
func (m *rowMerge) write(ctx context.Context, n int, column func(i int) (arrow.Array, error)) error {
	cols := make([]arrow.Array, m.out.NumFields())
	defer func() { release(cols) }()
	for i := range cols {
		var err error
		if cols[i], err = column(i); err != nil {
			return fmt.Errorf("column %q: %w", m.out.Field(i).Name, err)
		}
	}
	rec := array.NewRecordBatch(m.out, cols, int64(n))
	defer rec.Release()
	return m.rows.write(ctx, rec)
}
