package lsm

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/indexes/zonemap"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

// What a scan in the order of an index leaves out before it reads rows, and when it reads none.

// pruner is what is known of the rows of the filter: by zone maps and by other indexes. The zero value knows nothing.
type pruner struct {
	zones  *zonemap.Selection
	chosen *choice
}

// keeps reports whether a stored row can be one of the filter.
func (p *pruner) keeps(at Location) bool {
	if at.Source != 0 {
		rows, ok := p.chosen.of(at.Source)
		return !ok || rows.Contains(uint32(at.Addr))
	}
	frag, off := at.Addr.Fragment(), at.Addr.Offset()
	if rows, ok := p.chosen.in(frag); ok && !rows.Contains(off) {
		return false
	}
	if p.zones == nil {
		return true
	}
	ranges, known := p.zones.Of(frag)
	if !known {
		return true
	}
	i, _ := slices.BinarySearchFunc(ranges, uint64(off), func(r zonemap.Range, off uint64) int {
		if r.To <= off {
			return -1
		}
		return 1
	})
	return i < len(ranges) && ranges[i].From <= uint64(off)
}

// narrow drops hits that zone maps or other indexes say the filter leaves out, once the scan has turned out to be long.
func (k *keyedScan) narrow(hits []hit) ([]hit, error) {
	if k.spec.Filter == nil && len(k.spec.Within) == 0 || k.limit < k.rows {
		return hits, nil
	}
	if !k.narrowed {
		k.narrowed = true
		if err := k.makePruner(); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(hits, func(h hit) bool { return h.row == nil && !k.pruner.keeps(h.loc) }), nil
}

func (k *keyedScan) makePruner() error {
	var err error
	if k.spec.Filter != nil {
		if k.pruner.zones, err = k.selectZones(); err != nil {
			return err
		}
	}
	if z := k.pruner.zones; z != nil {
		k.stats.Zones, k.stats.ZonesKept = k.stats.Zones+z.Zones, k.stats.ZonesKept+z.ZonesKept
	}
	others := slices.DeleteFunc(slices.Clone(k.spec.Within), func(w IndexRanges) bool {
		if k.spec.Index == nil {
			return w.Index == PrimaryKey
		}
		return w.Index == k.spec.Index.Index
	})
	if len(others) > 0 {
		if k.pruner.chosen, err = k.askIndexes(others, slices.Collect(k.s.v.all())); err != nil {
			return err
		}
	}
	if k.spec.Filter == nil {
		return nil
	}
	more, err := k.askBitmaps()
	k.pruner.chosen = bothChoices(k.pruner.chosen, more)
	return err
}

// countKeyed counts what a scan by keys, a range of them or an index looks at: any row may be in any source.
func (sc *scan) countKeyed(own *Overlay) {
	st, v := sc.stats, sc.s.v
	sources := 0
	for _, gens := range v.gens {
		some := 0
		for _, g := range gens {
			if g.births.At(sc.s.s) > 0 {
				some++
			}
		}
		if some > 0 {
			st.Shards, st.ShardsKept = st.Shards+1, st.ShardsKept+1
		}
		sources += some
	}
	if len(v.base.frags) > 0 {
		sources++
	}
	if own != nil {
		sources++
	}
	st.Sources, st.SourcesKept = st.Sources+sources, st.SourcesKept+sources
	st.Fragments += len(v.base.frags)
	index := v.base.pk
	if sc.spec.Index != nil {
		index = v.base.secondary[sc.spec.Index.Index]
	}
	sc.countSegments(index)
}

// expectKeyed counts the rows that keys or an index of the base name.
func (sc *scan) expectKeyed() error {
	at, ranges := PrimaryKey, []KeyRange{}
	switch {
	case sc.spec.Index != nil:
		at, ranges = sc.spec.Index.Index, append(ranges, sc.spec.Index.Range)
	case sc.spec.Range != nil:
		ranges = append(ranges, *sc.spec.Range)
	default:
		sc.stats.Expected += uint64(len(sc.spec.Keys))
		return nil
	}
	n, err := sc.s.v.base.columnIndex(at).count(sc.ctx, ranges)
	sc.stats.Expected += n
	return err
}

// cover finds out whether keys of columns, in key order, hold all cells that are needed.
func (k *keyedScan) cover(columns []int, enc *rowkey.Encoder) {
	k.covering = nil
	for _, c := range k.need {
		if !slices.Contains(columns, c) {
			return
		}
	}
	k.covering, k.decoder = columns, enc
}

// fromKeys makes the needed columns of the keys of hits.
func (k *keyedScan) fromKeys(hits []hit) (arrow.RecordBatch, error) {
	if len(k.need) == 0 {
		return array.NewRecordBatch(k.inner, nil, int64(len(hits))), nil
	}
	rows := make([]arrowx.Row, len(hits))
	for i, h := range hits {
		rows[i] = make(arrowx.Row, len(k.need))
		for n, c := range k.need {
			v, err := k.decoder.Cell(h.key, slices.Index(k.covering, c))
			if err == nil {
				rows[i][n], err = cellOfKey(k.inner.Field(n).Type, v)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return arrowx.FromRows(k.s.t.o.Alloc, k.inner, rows)
}

// cellOfKey turns what a key holds into a cell of its column.
func cellOfKey(t arrow.DataType, v any) (any, error) {
	switch v := v.(type) {
	case nil, bool:
		return v, nil
	case []byte:
		if t.ID() == arrow.STRING || t.ID() == arrow.LARGE_STRING {
			return string(v), nil
		}
		return v, nil
	case uint64:
		switch t.ID() {
		case arrow.UINT8:
			return uint8(v), nil
		case arrow.UINT16:
			return uint16(v), nil
		case arrow.UINT32:
			return uint32(v), nil
		case arrow.UINT64:
			return v, nil
		}
	case int64:
		switch t.ID() {
		case arrow.INT8:
			return int8(v), nil
		case arrow.INT16:
			return int16(v), nil
		case arrow.INT32:
			return int32(v), nil
		case arrow.INT64:
			return v, nil
		case arrow.DATE32:
			return arrow.Date32(v), nil
		case arrow.DATE64:
			return arrow.Date64(v), nil
		}
	}
	return nil, fmt.Errorf("a %T in a key of %s: %w", v, t, errs.ErrInvalid)
}
