package sqlbackend

import (
	"github.com/dolthub/go-mysql-server/sql"
)

var _ sql.StatisticsTable = (*Table)(nil)

// RowCount implements sql.StatisticsTable. It is an estimate (exact is false): an exact answer would replace
// COUNT(*) by a number that knows nothing of the transaction's view.
func (t *Table) RowCount(ctx *sql.Context) (uint64, bool, error) {
	s, err := t.provider.engine.Stats(ctx, t.info.entry)
	if err != nil {
		return 0, false, wrapTable(t.info.entry, "statistics of", err)
	}
	return s.Rows, false, nil
}

// DataLength implements sql.StatisticsTable, in bytes.
func (t *Table) DataLength(ctx *sql.Context) (uint64, error) {
	s, err := t.provider.engine.Stats(ctx, t.info.entry)
	return s.Bytes, wrapTable(t.info.entry, "statistics of", err)
}
