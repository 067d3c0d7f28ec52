package table

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/lance/schema"
)

// Scan reads the live rows of the version in fragment order. fieldIDs as in ScanFragment.
func (d *Dataset) Scan(ctx context.Context, fieldIDs []int32) (arrowx.BatchReader, error) {
	fields, err := d.topFields(fieldIDs)
	if err != nil {
		return nil, fmt.Errorf("scan: %w", err)
	}
	out, err := schema.ArrowSchema(fields, d.state.schema.Metadata)
	if err != nil {
		return nil, fmt.Errorf("scan: %w", err)
	}
	return &liveScan{ctx: ctx, d: d, fieldIDs: fieldIDs, schema: out, rest: d.state.fragments}, nil
}

// liveScan chains the fragments and drops deleted rows.
type liveScan struct {
	ctx      context.Context // of the call that made the scan
	d        *Dataset
	fieldIDs []int32
	schema   *arrow.Schema
	rest     []*Fragment
	current  FragmentReader  // nil between fragments
	deleted  *roaring.Bitmap // of the current fragment, nil if none
}

// Schema implements arrowx.BatchReader.
func (s *liveScan) Schema() *arrow.Schema { return s.schema }

// Next implements arrowx.BatchReader.
func (s *liveScan) Next() (arrow.RecordBatch, error) {
	for {
		if s.current == nil {
			if len(s.rest) == 0 {
				return nil, io.EOF
			}
			if err := s.open(s.rest[0]); err != nil {
				return nil, err
			}
			s.rest = s.rest[1:]
		}
		first, rec, err := s.current.Next()
		if errors.Is(err, io.EOF) {
			err = s.current.Close()
			s.current = nil
			if err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		live, err := s.mask(first, rec)
		rec.Release()
		if err != nil {
			return nil, err
		}
		if live.NumRows() > 0 {
			return live, nil
		}
		live.Release()
	}
}

func (s *liveScan) open(f *Fragment) (err error) {
	if s.deleted, err = s.d.Deletions(s.ctx, f); err != nil {
		return err
	}
	s.current, err = s.d.ScanFragment(s.ctx, f, s.fieldIDs, 0, f.PhysicalRows, 0)
	return err
}

// mask returns the live rows of rec, whose first row has physical offset first. rec is borrowed.
func (s *liveScan) mask(first uint64, rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	n := int(rec.NumRows())
	if s.deleted == nil || !s.deleted.IntersectsWithInterval(first, first+uint64(n)) {
		rec.Retain()
		return rec, nil
	}
	keep := arrowx.NewFullMask(n)
	it := s.deleted.Iterator()
	it.AdvanceIfNeeded(uint32(first))
	for it.HasNext() {
		o := uint64(it.Next())
		if o >= first+uint64(n) {
			break
		}
		keep.Clear(int(o - first))
	}
	return arrowx.FilterByMask(s.d.env.alloc, rec, keep)
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
