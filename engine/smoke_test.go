package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
)

// TestHistory runs the crash tests' history without a crash.
func TestHistory(t *testing.T) {
	o, err := play(context.Background(), disk{store: objstore.NewMem(), journal: logfile.Memory()}, planted{})
	require.NoError(t, err)
	require.NotEmpty(t, o.acked)
}
