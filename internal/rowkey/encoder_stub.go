package rowkey

import (
	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

// Encoder encodes tuples of fixed column types.
type Encoder struct{ types []arrow.DataType }

// NewEncoder returns an encoder for tuples of the given types.
func NewEncoder(types []arrow.DataType) (*Encoder, error) { return nil, errs.ErrUnsupported }

// Row encodes the cells cols of r.
func (e *Encoder) Row(r arrowx.Row, cols []int) (Key, error) { return "", errs.ErrUnsupported }

// Batch encodes columns cols of every row of rec.
func (e *Encoder) Batch(rec arrow.RecordBatch, cols []int) ([]Key, error) {
	return nil, errs.ErrUnsupported
}
