package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// CompactOptions says which fragments Compact rewrites. The zero value is the default.
type CompactOptions struct {
	FragmentRows uint64 // rows a fragment should have; smaller ones are joined with their neighbours; 0: 1,048,576
	// MaxDeletedFraction is the share of deleted rows above which a fragment is rewritten even alone; 0: 0.1.
	MaxDeletedFraction float64
	// KeepIndexed leaves fragments alone that an index covers.
	KeepIndexed bool
	// DeferRemap records where the rows went, so that BTREE, BITMAP, LABEL_LIST and KEY indexes keep answering for them.
	DeferRemap bool
	// SmallRows joins only fragments of fewer live rows than this; 0: FragmentRows.
	SmallRows uint64
	// GroupsMax bounds the groups of neighbours rewritten; 0: all.
	GroupsMax int
}

// Compacted is what Compact did.
type Compacted struct {
	Groups, FragmentsRemoved, FragmentsAdded int
	Rows                                     uint64 // rows that moved
	Moves                                    []Move // by group, as they were committed
}

// Move says where live rows went: those of Old, in order, are the rows of New, in order.
type Move struct{ Old, New []*Fragment }

// Compact joins small fragments and drops deleted rows, keeping the order of rows inside each group of neighbours. Only
// fragments covered by the same indexes are joined; since rows move and nothing is remapped, these indexes lose them and
// queries scan them until the index is extended, unless DeferRemap is set. When nothing is to be done nothing is
// committed and d is returned. errs.ErrUnsupported in tables with stable row ids or a fragment reuse history that this
// package cannot maintain.
func (d *Dataset) Compact(ctx context.Context, o CompactOptions) (*Dataset, Compacted, error) {
	o = o.withDefaults()
	var done Compacted
	next, err := d.recomputing(ctx, func(ctx context.Context, on *Dataset) (next *Dataset, err error) {
		next, done, err = on.compactOnce(ctx, o)
		return next, err
	})
	if err != nil {
		return nil, Compacted{}, fmt.Errorf("compact %s: %w", d.root, err)
	}
	return next, done, nil
}

func (o CompactOptions) withDefaults() CompactOptions {
	if o.FragmentRows == 0 {
		o.FragmentRows = fragmentRowsDefault
	}
	if o.MaxDeletedFraction == 0 {
		o.MaxDeletedFraction = 0.1
	}
	if o.SmallRows == 0 {
		o.SmallRows = o.FragmentRows
	}
	return o
}

func (d *Dataset) compactOnce(ctx context.Context, o CompactOptions) (*Dataset, Compacted, error) {
	plan, err := d.PlanCompaction(ctx, o)
	if err != nil || len(plan) == 0 {
		return d, Compacted{}, err
	}
	op := Rewrite{DeferRemap: o.DeferRemap}
	var done Compacted
	all, err := d.rowWriter(d.state.schema.Fields, o.FragmentRows)
	if err != nil {
		return nil, Compacted{}, err
	}
	for _, old := range plan {
		from := len(all.done)
		if err := d.copyLive(ctx, old, all); err != nil {
			all.abort(ctx)
			return nil, Compacted{}, err
		}
		op.Groups = append(op.Groups, RewriteGroup{Old: old, New: slices.Clone(all.done[from:])})
		done.FragmentsRemoved += len(old)
	}
	done.Groups, done.FragmentsAdded, done.Rows = len(op.Groups), len(all.done), all.rows
	next, err := d.commitOrDrop(ctx, op, all)
	if err != nil {
		return nil, Compacted{}, err
	}
	at := 0
	for _, g := range op.Groups {
		done.Moves = append(done.Moves, Move{Old: g.Old, New: next.added[at : at+len(g.New)]})
		at += len(g.New)
	}
	return next, done, nil
}

// copyLive writes the live rows of some fragments into fragments of their own.
func (d *Dataset) copyLive(ctx context.Context, old []*Fragment, w *rowWriter) error {
	r, err := d.liveScan(ctx, old, d.FieldIDs(), ScanOptions{})
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			_, err := w.finish(ctx)
			return err
		}
		if err != nil {
			return err
		}
		err = w.write(ctx, rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
}

// PlanCompaction returns the groups of neighbouring fragments that Compact would rewrite: for callers that copy the rows
// themselves and commit a Rewrite. Errors as of Compact.
func (d *Dataset) PlanCompaction(ctx context.Context, o CompactOptions) ([][]*Fragment, error) {
	if d.StableRowIDs() {
		return nil, fmt.Errorf("stable row ids: %w", errs.ErrUnsupported)
	}
	o = o.withDefaults()
	covers, err := d.coverage(ctx)
	if err != nil {
		return nil, err
	}
	var plan [][]*Fragment
	var group []*Fragment
	var same []int // what covers the group
	var rows uint64
	emit := func() {
		if len(group) > 1 || len(group) == 1 && o.overdue(group[0]) {
			plan = append(plan, group)
		}
		group, rows = nil, 0
	}
	for _, f := range d.state.fragments {
		mine, any := covers(f)
		if !o.wants(f) || o.KeepIndexed && any {
			emit()
			continue
		}
		if len(group) > 0 && (rows >= o.FragmentRows || !slices.Equal(same, mine)) {
			emit()
		}
		same = mine
		group, rows = append(group, f), rows+f.LiveRows()
	}
	emit()
	if o.GroupsMax > 0 && len(plan) > o.GroupsMax {
		plan = plan[:o.GroupsMax]
	}
	return plan, nil
}

// overdue: too many rows are deleted.
func (o CompactOptions) overdue(f *Fragment) bool {
	return float64(f.DeletedRows) > o.MaxDeletedFraction*float64(f.PhysicalRows)
}

func (o CompactOptions) wants(f *Fragment) bool { return f.LiveRows() < o.SmallRows || o.overdue(f) }

// coverage returns which of the index entries that follow moved rows cover a fragment, after translation, and whether any
// entry does. Why not all: what cannot follow, a zone map for one, loses the fragments in any case.
func (d *Dataset) coverage(ctx context.Context) (func(f *Fragment) (follow []int, any bool), error) {
	h, err := d.FragmentReuse(ctx)
	if err == nil {
		err = h.Maintainable()
	}
	if err != nil {
		return nil, err
	}
	entries := slices.DeleteFunc(slices.Clone(d.state.indices), func(e *pb.IndexMetadata) bool { return isMemWAL(e) || isFragmentReuse(e) })
	sets := make([]func(id uint32) bool, len(entries))
	for i, e := range entries {
		if len(e.FragmentBitmap) == 0 {
			return nil, fmt.Errorf("index entry %q does not say which fragments it covers: %w", e.Name, errs.ErrUnsupported)
		}
		set, err := decodeRoaring(d.state.object, e.FragmentBitmap)
		if err != nil {
			return nil, fmt.Errorf("index entry %q: fragment bitmap: %w", e.Name, err)
		}
		if remappable(e) {
			set = h.Coverage(set)
		}
		sets[i] = set.Contains
	}
	return func(f *Fragment) (follow []int, any bool) {
		for i, has := range sets {
			if !has(uint32(f.ID)) {
				continue
			}
			any = true
			if remappable(entries[i]) {
				follow = append(follow, i)
			}
		}
		return follow, any
	}, nil
}
