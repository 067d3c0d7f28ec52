package fragreuse

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/lance/table"
)

// recordOf is the rows of these ids as testdata/oracle/fragreuse.py makes them.
func recordOf(t testing.TB, d *table.Dataset, ids []int64) arrow.RecordBatch {
	t.Helper()
	s, err := d.Schema().Arrow()
	require.NoError(t, err)
	rows := make([]arrowx.Row, len(ids))
	for i, id := range ids {
		var c any
		if id%7 != 0 {
			c = int32(id % 5)
		}
		rows[i] = arrowx.Row{id, c, fmt.Sprint("s", id%11)}
	}
	rec, err := arrowx.FromRows(memory.DefaultAllocator, s, rows)
	require.NoError(t, err)
	return rec
}

func int64s(a arrow.Array) []int64 { return a.(*array.Int64).Int64Values() }
