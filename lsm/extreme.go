package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/predicate"
)

// Extreme returns the least or the greatest cell of a physical column over the rows of the snapshot and own, in the order of
// predicate.CompareCells; nil if all are NULL or there are none. Of fragments with zone maps it reads the zones that
// promise most, until no other can hold more: a zone's bounds may be those of deleted rows. stats may be nil.
// errs.ErrUnsupported for floats, whose zones do not have their NaN among the bounds.
func (s *Snapshot) Extreme(ctx context.Context, column int, greatest bool, own *Overlay, stats *ReadStats) (any, error) {
	sc, err := s.newScan(ctx, ScanSpec{Columns: []int{column}, Stats: stats})
	if err != nil {
		return nil, err
	}
	if err := sc.hideOverlay(own); err != nil {
		return nil, err
	}
	x := &extreme{scan: sc, greatest: greatest}
	if own != nil {
		for _, row := range own.Rows {
			if row != nil {
				if err := x.take(row[column]); err != nil {
					return nil, err
				}
			}
		}
	}
	f := &fullScan{scan: sc}
	for g := range s.v.all() {
		if err := x.read(f.openGeneration(g)); err != nil {
			return nil, err
		}
	}
	return x.best, x.base(column)
}

// extreme is the search for one cell.
type extreme struct {
	*scan
	greatest bool
	best     any
}

// promise is a run of rows with the greatest (least) cell that it can hold.
type promise struct {
	piece
	cell any
}

// better reports whether a beats b.
func (x *extreme) better(a, b any) (bool, error) {
	c, ok := predicate.CompareCells(a, b)
	switch a.(type) {
	case float32, float64:
		ok = false
	}
	if !ok {
		return false, fmt.Errorf("extreme of cells of type %T and %T: %w", a, b, errs.ErrUnsupported)
	}
	return x.greatest && c > 0 || !x.greatest && c < 0, nil
}

func (x *extreme) take(cell any) error {
	if cell == nil {
		return nil
	}
	if x.best == nil {
		_, err := x.better(cell, cell)
		x.best = cell
		return err
	}
	yes, err := x.better(cell, x.best)
	if yes {
		x.best = cell
	}
	return err
}

// read takes the cells of the rows of a source.
func (x *extreme) read(r chunkReader) error {
	defer r.close() //nolint:errcheck // read only
	for {
		c, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		x.stats.RowsRead += uint64(c.rec.NumRows())
		for _, i := range c.mask.Indices(nil) {
			if err = x.take(arrowx.Value(c.rec.Column(0), i)); err != nil {
				break
			}
		}
		c.rec.Release()
		if err != nil {
			return err
		}
	}
}

// base looks at the base: first what nothing is known of, then zones while they promise more.
func (x *extreme) base(column int) error {
	b := x.s.v.base
	segments, err := x.zonesOf(column)
	if err != nil {
		return err
	}
	var promises []promise
	known := roaring.New()
	for _, seg := range segments {
		for i := range seg.Zones() {
			z := seg.At(i)
			frag := b.byID[z.Fragment]
			if frag == nil {
				continue
			}
			known.Add(z.Fragment)
			x.stats.Zones++
			p := promise{piece: piece{frag: frag, from: z.Start, to: min(z.Start+z.Length, frag.PhysicalRows)}, cell: z.Min}
			if x.greatest {
				p.cell = z.Max
			}
			switch {
			case z.Unknown || z.NaNs > 0 || p.cell != nil && x.greatest && !z.MaxKnown:
				x.stats.ZonesKept++
				if err := x.read(x.readBase(p.piece)); err != nil {
					return err
				}
			case p.cell != nil:
				promises = append(promises, p)
			}
		}
	}
	x.stats.Fragments += len(b.frags)
	for _, f := range b.frags {
		if known.Contains(uint32(f.ID)) {
			continue
		}
		x.stats.FragmentsKept++
		if err := x.read(x.readBase(piece{frag: f, to: f.PhysicalRows})); err != nil {
			return err
		}
	}
	return x.keep(promises)
}

// keep reads zones, the most promising first, until none promises more than what is there.
func (x *extreme) keep(promises []promise) error {
	var failed error
	slices.SortFunc(promises, func(a, b promise) int {
		yes, err := x.better(a.cell, b.cell)
		failed = errors.Join(failed, err)
		no, _ := x.better(b.cell, a.cell)
		switch {
		case yes:
			return -1
		case no:
			return 1
		}
		return 0
	})
	if failed != nil {
		return failed
	}
	for _, p := range promises {
		if x.best != nil {
			more, err := x.better(p.cell, x.best)
			if err != nil {
				return err
			}
			if !more {
				return nil
			}
		}
		x.stats.ZonesKept++
		if err := x.read(x.readBase(p.piece)); err != nil {
			return err
		}
	}
	return nil
}
