package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/engine"
)

func TestDurabilitySettings(t *testing.T) {
	parse := func(text string) (options, error) {
		path := filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return parseOptions([]string{"--config", path}, io.Discard)
	}
	o, err := parse("innodb_flush_log_at_trx_commit: 0\nwal_ack: entry\nlancesql_freshness: 0s\njournal_bytes: 536870912\n")
	require.NoError(t, err)
	c := o.engine()
	require.Equal(t, engine.SyncEverySecond, c.Durability)
	require.Equal(t, engine.AckEntry, c.WALAck)
	require.Equal(t, engine.NoFreshness, c.Freshness)
	require.EqualValues(t, 512<<20, c.JournalBytes)
	o, err = parse("innodb_flush_log_at_trx_commit: 1\nlancesql_freshness: 5s\n")
	require.NoError(t, err)
	require.Equal(t, engine.SyncCommit, o.engine().Durability)
	require.Equal(t, 5*time.Second, o.engine().Freshness)
	for _, bad := range []string{"innodb_flush_log_at_trx_commit: 3\n", "wal_ack: both\n", "journal_bytes: 1\n"} {
		_, err = parse(bad)
		require.Error(t, err, bad)
	}
}
