package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/objstore"
)

// TestHistory runs the crash tests' history without a crash.
func TestHistory(t *testing.T) {
	o, err := play(context.Background(), objstore.NewMem())
	require.NoError(t, err)
	require.NotEmpty(t, o.acked)
}
