package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
	"lancesql/lsm"
)

// Writes far beyond the account are admitted because MemTables are flushed for it; one transaction that fills it alone
// fails, and gives back what it took.
func TestMemoryAccount(t *testing.T) {
	ctx := context.Background()
	cfg := DefaultConfig()
	cfg.MemoryBytes = 16 << 20
	e, err := Open(ctx, cfg, Components{Store: objstore.NewMem(), Journal: logfile.Memory()})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(ctx)) }()
	require.NoError(t, e.CreateDatabase(ctx, "d", nil))
	tbl, err := e.CreateTable(ctx, "d", "t", TableDef{Schema: testSchema(), AutoColumn: -1})
	require.NoError(t, err)
	text := strings.Repeat("x", 4000)
	peak := int64(0)
	for i := range 60 { // 240 KB each, 14 MB in all, twice over
		txn := e.Begin(TxnOptions{})
		for n := range 120 {
			require.NoError(t, txn.Insert(ctx, tbl, arrowx.Row{int64(i*1000 + n), fmt.Sprint(i, text), nil}))
		}
		require.NoError(t, txn.Commit(ctx))
		peak = max(peak, e.Memory().Total())
	}
	require.Less(t, peak, int64(20<<20))
	n := 0
	r, err := e.Begin(TxnOptions{ReadOnly: true}).Scan(ctx, tbl, Consistent, lsm.ScanSpec{})
	require.NoError(t, err)
	for {
		b, err := r.Next()
		if err != nil {
			break
		}
		n += int(b.NumRows())
		b.Release()
	}
	require.NoError(t, r.Close())
	require.Equal(t, 60*120, n)

	before := e.Memory().WriteSets
	require.Zero(t, before)
	txn := e.Begin(TxnOptions{})
	for i := range 200_000 { // it ends at the error; the account is looked at every 20 ms
		if err = txn.Insert(ctx, tbl, arrowx.Row{int64(1_000_000 + i), text, nil}); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, errs.ErrLimit)
	txn.Rollback()
	require.Zero(t, e.Memory().WriteSets)
	txn = e.Begin(TxnOptions{})
	require.NoError(t, txn.Insert(ctx, tbl, arrowx.Row{int64(5_000_000), "y", nil}))
	require.NoError(t, txn.Commit(ctx))
}
