package lsm

import (
	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/internal/predicate"
	"lancesql/internal/rowkey"
)

// KeyRange is the half-open interval [Lo, Hi) of primary keys; an empty bound is open.
type KeyRange struct{ Lo, Hi rowkey.Key }

// ScanSpec says which rows and columns a scan returns. At most one of Keys and Range is set.
type ScanSpec struct {
	Columns   []int          // physical column positions, in output order; empty = rows without columns
	Filter    predicate.Expr // nil = all rows; applied exactly
	Keys      []rowkey.Key   // only these keys (distinct); rows come in ascending key order
	Range     *KeyRange      // only keys in this range; rows come in ascending key order
	BatchRows int            // upper bound of rows per batch, 0 = default
}

// Keyed reports whether rows come in key order.
func (s ScanSpec) Keyed() bool { return s.Range != nil || s.Keys != nil }

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
