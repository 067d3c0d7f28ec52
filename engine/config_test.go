package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
)

func TestConfigDefaults(t *testing.T) {
	require.NoError(t, Config{}.Validate())
	require.Equal(t, "defaults", Config{}.String())
	require.Equal(t, DefaultConfig(), Config{}.withDefaults())
	require.Equal(t, DefaultConfig(), DefaultConfig().withDefaults())
	require.Equal(t, "DataDir=/d LockWaitTimeout=1s Workers=-1", Config{DataDir: "/d", LockWaitTimeout: time.Second, Workers: NoWorkers}.String())
	require.Equal(t, "ManifestRetention=-1ns", Config{ManifestRetention: NoRetention, MemTableRows: 1_000_000}.String(), "a default given explicitly is no difference")
}

func TestConfigLimitsFollowEachOther(t *testing.T) {
	for _, c := range []Config{{FrozenSoft: 50}, {FrozenHard: 1}, {GenerationsSoft: 99}, {GenerationsHard: 2}} {
		require.NoError(t, c.Validate(), "%s", c)
	}
	c := Config{FrozenSoft: 50, GenerationsHard: 3}.withDefaults()
	require.Equal(t, 50, c.FrozenHard)
	require.Equal(t, 3, c.GenerationsSoft)
	require.Equal(t, 3, c.MergeAfterGenerations)
}

func TestConfigProblemsAreReportedTogether(t *testing.T) {
	err := Config{FrozenSoft: 9, FrozenHard: 3, Workers: -2, LockWaitTimeout: -time.Second, MergeAfterGenerations: 17,
		MemTableRows: 1 << 40, CommitGroupBytes: -1, CommitGroupTxns: -1, ManifestRetention: -2, GenerationGrace: -1}.Validate()
	require.ErrorIs(t, err, errs.ErrInvalid)
	for _, name := range []string{"FrozenHard", "Workers", "LockWaitTimeout", "MergeAfterGenerations", "MemTableRows", "CommitGroupBytes",
		"CommitGroupTxns", "ManifestRetention", "GenerationGrace"} {
		require.ErrorContains(t, err, name)
	}
	var joined interface{ Unwrap() []error }
	require.True(t, errors.As(err, &joined))
	require.Len(t, joined.Unwrap(), strings.Count(err.Error(), "\n")+1)
}
