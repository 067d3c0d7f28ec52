package zonemap

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
)

// Part is the statistics of one fragment, which belongs into a segment.
type Part struct {
	Fragment uint32
	Stats    *Stats
}

// WriteOptions says how a segment is written. The zero value is the default.
type WriteOptions struct {
	// Version of the statistics: 0, which every Lance reads, or 1, which Lance 14 passes over.
	Version int32
	// UseSeeds is recorded in the details: writers of the table leave seeds for this index. See SeedsByDefault.
	UseSeeds bool
	Memory   memory.Allocator // nil: the Go allocator
}

// Written is what the index entry must say about a segment.
type Written struct {
	File      store.Info
	Details   []byte // of the message that indexes.InfoOf(indexes.ZoneMap) names
	Version   int32
	Fragments *roaring.Bitmap
}

// Write writes a segment of the parts, in any order, each of another fragment. If one of them does not know where its
// NULLs are the segment does not either. errs.ErrInvalid for parts of different types or zone sizes, none at all, or
// version 1 of statistics that hide what it says. errs.ErrUnsupported for a column type the file cannot hold.
// Spec: zone map index, "Storage Layout".
func Write(ctx context.Context, dir store.Dir, parts []Part, o WriteOptions) (Written, error) {
	if o.Memory == nil {
		o.Memory = memory.DefaultAllocator
	}
	all, nulls, err := join(parts, o.Version)
	if err != nil {
		return Written{}, fmt.Errorf("write zone map: %w", err)
	}
	out := Written{Version: o.Version, Fragments: roaring.New()}
	for _, p := range parts {
		out.Fragments.Add(p.Fragment)
	}
	first := parts[0].Stats
	d := Details{RowsPerZone: &first.rowsPerZone, UseSeeds: &o.UseSeeds, HasNullBitmap: nulls != nil}
	out.Details = d.Encode()
	sh := shape{version: o.Version, location: true}
	w, err := dir.Create(ctx, FileName, sh.schema(first.typ))
	if err != nil {
		return Written{}, fmt.Errorf("write zone map: %w", err)
	}
	defer w.Abort()
	w.SetMetadata(metaRowsPerZone, strconv.FormatUint(first.rowsPerZone, 10))
	rec := sh.record(o.Memory, first.typ, all)
	err = w.Write(rec)
	rec.Release()
	if err != nil {
		return Written{}, fmt.Errorf("write zone map: %w", err)
	}
	if nulls != nil {
		b, err := nulls.Encode()
		if err != nil {
			return Written{}, fmt.Errorf("write zone map: %w", err)
		}
		number, err := w.AddBuffer(b)
		if err != nil {
			return Written{}, fmt.Errorf("write zone map: %w", err)
		}
		w.SetMetadata(metaNullBitmap, strconv.FormatUint(uint64(number), 10))
	}
	if out.File, err = w.Finish(ctx); err != nil {
		return Written{}, fmt.Errorf("write zone map: %w", err)
	}
	return out, nil
}

// join puts the parts together by fragment. nulls is nil if they are not known everywhere.
func join(parts []Part, version int32) (*zones, *rowaddr.Treemap, error) {
	if version < 0 || version > 1 {
		return nil, nil, fmt.Errorf("version %d: %w", version, errs.ErrUnsupported)
	}
	if len(parts) == 0 {
		return nil, nil, fmt.Errorf("no fragments: %w", errs.ErrInvalid)
	}
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(a, b Part) int { return int(int64(a.Fragment) - int64(b.Fragment)) })
	first := parts[0].Stats
	all, nulls := &zones{form: first.zones.form}, rowaddr.NewTreemap()
	for i, p := range parts {
		if i > 0 && p.Fragment == parts[i-1].Fragment {
			return nil, nil, fmt.Errorf("fragment %d twice: %w", p.Fragment, errs.ErrInvalid)
		}
		if !arrow.TypeEqual(p.Stats.typ, first.typ) || p.Stats.rowsPerZone != first.rowsPerZone {
			return nil, nil, fmt.Errorf("fragment %d has zones of %d rows of %s, not %d of %s: %w",
				p.Fragment, p.Stats.rowsPerZone, p.Stats.typ, first.rowsPerZone, first.typ, errs.ErrInvalid)
		}
		if err := p.Stats.zones.exact(); err != nil && version >= 1 {
			return nil, nil, fmt.Errorf("version %d of fragment %d: %w", version, p.Fragment, err)
		}
		for z := range p.Stats.zones.start {
			all.appendFrom(&p.Stats.zones, z)
			all.fragment = append(all.fragment, p.Fragment)
		}
		switch {
		case p.Stats.nulls == nil:
			nulls = nil
		case nulls != nil && !p.Stats.nulls.IsEmpty():
			nulls.AddOffsets(p.Fragment, p.Stats.nulls)
		}
	}
	if uint64(all.len()) > min(zonesMax, math.MaxUint32) {
		return nil, nil, fmt.Errorf("%d zones: %w", all.len(), errs.ErrLimit)
	}
	return all, nulls, nil
}
