package zonebloom

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The rates are those of the fact sheet; the sizes those that Lance 14.0.2 chose.
func TestFilterSize(t *testing.T) {
	require.InEpsilon(t, 0.001316, falseRate(8192.0/(1<<14/32)), 0.001)
	require.InEpsilon(t, 3.61e-5, falseRate(8192.0/(1<<15/32)), 0.002)
	require.Equal(t, 32768, filterBytes(ItemsDefault, ProbabilityDefault))
	require.Equal(t, 32, filterBytes(10, 0.01))
	require.Equal(t, filterBytesMax, filterBytes(1<<40, 1e-9))
}
