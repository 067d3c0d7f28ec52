package indexes

import (
	"context"

	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/lance/rowaddr"
)

// Segment is one opened segment of an index over one column. It is safe for concurrent use.
type Segment interface {
	// Search answers q. errs.ErrUnsupported if the kind cannot answer this query: scan instead. errs.ErrInvalid for a
	// value that is not of the column's Go type, errs.ErrCorruption for bad files.
	Search(ctx context.Context, q Query) (Result, error)
	// Coverage returns the fragments the segment speaks about, read-only.
	Coverage() *roaring.Bitmap
	// Close gives caches back. No Search may run or follow.
	Close() error
}

// Result is what a segment says about the rows of its fragments.
type Result struct {
	// Addrs holds every row that satisfies the query, in addresses of the version the segment was built from: those of
	// deleted rows may be among them. The caller owns it.
	Addrs *rowaddr.Treemap
	// Exact: Addrs holds no row that does not satisfy the query, deleted ones apart. Otherwise evaluate again.
	Exact bool
	// Fragments is the coverage: nothing is said about rows of others. Read-only.
	Fragments *roaring.Bitmap
}

// Query is one question about the indexed column: Range, In, IsNull or NotNull. Values are cells as arrowx.Row
// describes them, with the column's own Go type, never nil; they compare as in internal/predicate (I2).
type Query interface{ isQuery() }

// Range asks for the values between two bounds; column = v is the closed range from v to v. NULLs never match. Without
// bounds it is NotNull. LIKE 'p%' is the range from p, inclusive, to the next string that does not begin with p.
type Range struct{ Low, High Bound }

// Bound is one end of a Range; the zero value is no bound.
type Bound struct {
	Value     any // nil: unbounded
	Exclusive bool
}

// In asks for values that equal one of Values, in any order, repetitions allowed. None: nothing matches.
type In struct{ Values []any }

// IsNull asks for NULLs.
type IsNull struct{}

// NotNull asks for everything but NULLs, NaN included.
type NotNull struct{}

func (Range) isQuery()   {}
func (In) isQuery()      {}
func (IsNull) isQuery()  {}
func (NotNull) isQuery() {}

// Equals is the Range of exactly v.
func Equals(v any) Range { return Range{Low: Bound{Value: v}, High: Bound{Value: v}} }
