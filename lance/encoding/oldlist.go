package encoding

import (
	"lancesql/lance/pb"
)

// OldList is the compiled description of a page of a list's column in version 2.0: where each row's items end.
// Immutable.
// Spec: file format, "Version 2.0".
type OldList struct {
	offsets *oldNode
	adjust  uint64 // what is added to the end of null rows; 0 = no nulls
	items   uint64
	rows    uint64
}

// CompileOldList checks the description of a list page of rows rows.
func CompileOldList(a *pb.ArrayEncoding20, rows uint64) (*OldList, error) {
	l := a.GetList()
	if l == nil {
		return nil, corrupt("list column with another encoding")
	}
	n, err := compileOld(l.GetOffsets(), Type{Kind: KindFixed, Bits: 64}, 0)
	if err != nil {
		return nil, err
	}
	if n.kind != oldFlat {
		return nil, unsupported("2.0 list offsets over nested encodings")
	}
	if l.GetNumItems() > 1<<56 {
		return nil, corrupt("list page of %d items", l.GetNumItems())
	}
	return &OldList{offsets: n, adjust: l.GetNullOffsetAdjustment(), items: l.GetNumItems(), rows: rows}, nil
}

// Items returns the number of items of all rows of the page.
func (l *OldList) Items() uint64 { return l.items }

// Ends returns where the items of row from begin, and for each row [from, to) where they end and whether the row is
// null, counted from the first item of the page.
func (l *OldList) Ends(from, to uint64, src OldSource, st *OldState) (start uint64, ends []uint64, null []bool, err error) {
	if from >= to || to > l.rows {
		return 0, nil, nil, corrupt("list rows %d..%d of a page of %d", from, to, l.rows)
	}
	first := from
	if first > 0 {
		first--
	}
	b, err := l.offsets.bytes(first, to, src, st)
	if err != nil {
		return 0, nil, nil, err
	}
	last := uint64(0)
	for i := 0; i+8 <= len(b); i += 8 {
		end, isNull := u64(b[i:]), false
		if l.adjust > 0 && end >= l.adjust {
			end, isNull = end%l.adjust, true
		}
		if end < last || end > l.items {
			return 0, nil, nil, corrupt("list offset %d after %d of %d", end, last, l.items)
		}
		last = end
		if first < from && i == 0 {
			start = end
			continue
		}
		ends, null = append(ends, end), append(null, isNull)
	}
	return start, ends, null, nil
}
