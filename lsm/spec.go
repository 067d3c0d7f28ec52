package lsm

import (
	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/internal/predicate"
	"lancesql/internal/rowkey"
)

// KeyRange is the half-open interval [Lo, Hi) of primary keys; an empty bound is open.
type KeyRange struct{ Lo, Hi rowkey.Key }

// IndexRange asks for the rows whose indexed value, as a tuple of one column, is in Range. A column that is indexed
// itself has no tuple for NULL: such rows are not found.
type IndexRange struct {
	Index int // place in Options.Indexes
	Range KeyRange
}

// PrimaryKey stands for the index over the primary key where a place in Options.Indexes is asked for.
const PrimaryKey = -1

// IndexRanges says that rows have an indexed value, as a tuple, in one of some ranges.
type IndexRanges struct {
	Index  int        // place in Options.Indexes, or PrimaryKey
	Ranges []KeyRange // ascending, apart from each other
}

// ScanSpec says which rows and columns a scan returns. At most one of Keys, Range and Index is set.
type ScanSpec struct {
	Columns   []int          // physical column positions, in output order; empty = rows without columns
	Filter    predicate.Expr // nil = all rows; applied exactly
	Keys      []rowkey.Key   // only these keys (distinct); rows come in ascending key order
	Range     *KeyRange      // only keys in this range; rows come in ascending key order
	Index     *IndexRange    // only rows found by a secondary index; rows come in ascending order of its values
	Backward  bool           // rows come in descending order of keys or values instead
	BatchRows int            // upper bound of rows per batch, 0 = default

	// Within says in which ranges of which indexes the wanted rows are: rows outside any of them may be left out. The scan
	// uses what promises to spare it something. A column that is indexed itself has no tuple for NULL.
	Within []IndexRanges
	// Verify compares what indexes and zone maps say with a scan of the same snapshot, at the cost of one.
	// errs.ErrCorruption if they differ.
	Verify bool
	// Stats, if set, counts what the scan does.
	Stats *ReadStats
}

// Keyed reports whether rows are found by keys and come in their order.
func (s ScanSpec) Keyed() bool { return s.Range != nil || s.Keys != nil || s.Index != nil }

// Overlay is the newest source of a scan: a transaction's own uncommitted writes. Keys are distinct; a nil
// row hides the key. Row i belongs to Keys[i]. Borrowed for the life of the scan.
type Overlay struct {
	Keys []rowkey.Key
	Rows []arrowx.Row
}

// OutputSchema returns the Arrow schema of a scan of the given physical schema.
func (s ScanSpec) OutputSchema(physical *arrow.Schema) *arrow.Schema {
	fields := make([]arrow.Field, len(s.Columns))
	for i, c := range s.Columns {
		fields[i] = physical.Field(c)
	}
	return arrow.NewSchema(fields, nil)
}
