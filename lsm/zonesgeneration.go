package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/indexes/zonemap"
	"lancesql/internal/errs"
)

// generationZones are the zone maps of a flushed generation. They are in memory only: the flush makes them of the rows it
// writes, and after a restart the first scan with a filter on a column does, which reads the column once more.
//
// mu guards columns.
type generationZones struct {
	mu      sync.Mutex
	columns map[int]*zonemap.Segment // by physical position; nil: of no use
}

// newZoneBuilder returns a builder for the zones of a generation's column, nil if the table keeps no zone map of it. Where the
// NULLs are is not recorded: every delete row has them.
func (t *Table) newZoneBuilder(b *base, column int) (*zonemap.Builder, error) {
	o := t.tuning().ZoneMaps
	if o.Off || !b.zones.columns[column].kept {
		return nil, nil
	}
	return zonemap.NewBuilder(t.physical.Field(column).Type, zonemap.Options{RowsPerZone: o.RowsPerZone, NoNullBitmap: true})
}

// zonesOf makes the zone maps of the rows of a MemTable that is being flushed, by physical column.
func (t *Table) zonesOf(b *base, batches []arrow.RecordBatch) (map[int]*zonemap.Segment, error) {
	z := make(map[int]*zonemap.Segment)
	for i := range t.physical.NumFields() {
		builder, err := t.newZoneBuilder(b, i)
		if err != nil {
			return nil, err
		}
		if builder == nil {
			continue
		}
		first := uint64(0)
		for _, rec := range batches {
			if err := builder.Append(rec.Column(i), first); err != nil {
				return nil, fmt.Errorf("zones of column %s: %w", t.physical.Field(i).Name, err)
			}
			first += uint64(rec.NumRows())
		}
		z[i] = zonemap.InMemory(0, builder.Finish())
	}
	return z, nil
}

// zoneMap returns the zone map of a column of a flushed generation, made now if it is not there; nil if there is none to be had.
func (g *generation) zoneMap(ctx context.Context, t *Table, b *base, column int) (*zonemap.Segment, error) {
	g.zones.mu.Lock()
	defer g.zones.mu.Unlock()
	if s, known := g.zones.columns[column]; known {
		return s, nil
	}
	builder, err := t.newZoneBuilder(b, column)
	if err != nil || builder == nil {
		return nil, err
	}
	err = eachBatch(ctx, g.ds, g.frag, []int32{g.fieldIDs[column]}, t.o.BatchRows, func(first uint64, rec arrow.RecordBatch) error {
		return builder.Append(rec.Column(0), first)
	})
	if err != nil {
		return nil, fmt.Errorf("zones of generation %d: %w", g.number, err)
	}
	s := zonemap.InMemory(0, builder.Finish())
	g.zones.columns[column] = s
	return s, nil
}

// pruneGeneration says what the zone maps of a flushed generation leave of it for the filter; whole is true if they say nothing.
func (f *fullScan) pruneGeneration(g *generation) (runs []zonemap.Range, whole bool, err error) {
	var failed error
	sel, err := zonemap.Prune(f.spec.Filter, func(column int) []*zonemap.Segment {
		s, err := g.zoneMap(f.ctx, f.s.t, f.s.v.base, column)
		failed = errors.Join(failed, err)
		if s == nil {
			return nil
		}
		return []*zonemap.Segment{s}
	})
	if failed != nil {
		return nil, false, failed
	}
	if errors.Is(err, errs.ErrInvalid) {
		return nil, true, nil // the scan says so itself if it meets a row
	}
	if err != nil {
		return nil, false, err
	}
	ranges, known := sel.Of(0)
	if !known {
		return nil, true, nil
	}
	f.stats.Zones, f.stats.ZonesKept = f.stats.Zones+sel.Zones, f.stats.ZonesKept+sel.ZonesKept
	born := uint64(g.births.At(f.s.s))
	for _, r := range ranges {
		if r.To = min(r.To, born); r.From < r.To {
			runs = append(runs, r)
		}
	}
	if n := len(runs); n > 0 && f.s.t.o.Planted.ShortZones {
		runs[n-1].To--
	}
	return runs, false, nil
}

// runsReader reads runs of rows one after the other.
type runsReader struct{ rest []*fileReader }

func (r *runsReader) next() (chunk, error) {
	for {
		if len(r.rest) == 0 {
			return chunk{}, io.EOF
		}
		c, err := r.rest[0].next()
		if !errors.Is(err, io.EOF) {
			return c, err
		}
		if err := r.close(); err != nil {
			return chunk{}, err
		}
		r.rest = r.rest[1:]
	}
}

func (r *runsReader) close() error {
	if len(r.rest) == 0 {
		return nil
	}
	return r.rest[0].close()
}
