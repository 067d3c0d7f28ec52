package table

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
	"lancesql/lance/schema"
)

// Take reads the rows at the given positions of a scan: position 0 is the first live row. Positions come in any order
// and may repeat; the batch has them in that order. columns as in ScanOptions. errs.ErrInvalid for a position beyond
// the last row. The caller releases the batch.
func (d *Dataset) Take(ctx context.Context, columns []string, positions []uint64) (arrow.RecordBatch, error) {
	addrs := make([]rowaddr.Addr, len(positions))
	order := make([]int, len(positions))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return compare(positions[a], positions[b]) })
	var before uint64 // live rows of the fragments passed
	k := 0
	for _, f := range d.state.fragments {
		if k == len(order) {
			break
		}
		if positions[order[k]] >= before+f.LiveRows() {
			before += f.LiveRows()
			continue
		}
		deleted, err := d.Deletions(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("take: %w", err)
		}
		for ; k < len(order) && positions[order[k]] < before+f.LiveRows(); k++ {
			offset := liveOffset(deleted, f.PhysicalRows, positions[order[k]]-before)
			addrs[order[k]] = rowaddr.New(uint32(f.ID), offset)
		}
		before += f.LiveRows()
	}
	if k < len(order) {
		return nil, fmt.Errorf("take: position %d of %d rows: %w", positions[order[k]], d.CountRows(), errs.ErrInvalid)
	}
	return d.TakeAddresses(ctx, columns, addrs)
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// liveOffset is the physical offset of the n-th live row.
func liveOffset(deleted *roaring.Bitmap, rows, n uint64) uint32 {
	if deleted == nil {
		return uint32(n)
	}
	// The offset is the least o with o+1-rank(o) > n, where rank counts deleted offsets up to o.
	return uint32(sort.Search(int(rows), func(o int) bool { return uint64(o)+1-deleted.Rank(uint32(o)) > n }))
}

// TakeAddresses reads the rows at the given addresses, in any order, repeats allowed; the batch has them in that order.
// columns as in ScanOptions. errs.ErrInvalid for an address of no row or of a deleted one. The caller releases the batch.
func (d *Dataset) TakeAddresses(ctx context.Context, columns []string, addrs []rowaddr.Addr) (arrow.RecordBatch, error) {
	ids, err := d.columnIDs(columns)
	if err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(addrs)))
	rows, err := d.takeSorted(ctx, ids, sorted)
	if err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	if slices.Equal(sorted, addrs) {
		return rows, nil
	}
	defer rows.Release()
	indices := make([]int, len(addrs))
	for i, a := range addrs {
		indices[i], _ = slices.BinarySearch(sorted, a)
	}
	return arrowx.Take(d.env.alloc, rows, indices)
}

// takeSorted reads rows by ascending, distinct addresses, fragment by fragment.
func (d *Dataset) takeSorted(ctx context.Context, ids []int32, addrs []rowaddr.Addr) (arrow.RecordBatch, error) {
	var parts []arrow.RecordBatch
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	for len(addrs) > 0 {
		id := addrs[0].Fragment()
		var offsets []uint32
		for len(addrs) > 0 && addrs[0].Fragment() == id {
			offsets = append(offsets, addrs[0].Offset())
			addrs = addrs[1:]
		}
		f := d.state.fragment(uint64(id))
		if f == nil {
			return nil, fmt.Errorf("fragment %d is not in version %d: %w", id, d.Version(), errs.ErrInvalid)
		}
		deleted, err := d.Deletions(ctx, f)
		if err != nil {
			return nil, err
		}
		if deleted != nil && slices.ContainsFunc(offsets, deleted.Contains) {
			return nil, fmt.Errorf("a row of fragment %d is deleted: %w", id, errs.ErrInvalid)
		}
		rec, err := d.TakeFragment(ctx, f, ids, offsets)
		if err != nil {
			return nil, err
		}
		parts = append(parts, rec)
	}
	switch len(parts) {
	case 0:
		return d.noRows(ids)
	case 1:
		parts[0].Retain()
		return parts[0], nil
	}
	return arrowx.Concat(d.env.alloc, parts)
}

// noRows is an empty batch of the given fields.
func (d *Dataset) noRows(ids []int32) (arrow.RecordBatch, error) {
	fields, err := d.topFields(ids)
	if err != nil {
		return nil, err
	}
	s, err := schema.ArrowSchema(fields, d.state.schema.Metadata)
	if err != nil {
		return nil, err
	}
	return emptyBatch(d.env.alloc, s), nil
}
