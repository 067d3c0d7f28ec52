package wire_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend/wire"
)

func TestAppendFloat(t *testing.T) {
	for want, f := range map[string]float64{
		"0": 0, "1": 1, "100": 100, "-1.5": -1.5, "0.1": 0.1, "10000000000": 1e10, "100000000000000": 1e14, "1e15": 1e15, "1.5e300": 1.5e300,
		"123456789012345.6": 123456789012345.6, "1.2345678901234568e17": 123456789012345678, "0.00001": 1e-5, "-0.00000000000001": -1e-14,
		"1e-16": 1e-16, "-2.5e-20": -2.5e-20, "0.3333333333333333": 1.0 / 3, "1.7976931348623157e308": math.MaxFloat64,
	} {
		require.Equal(t, want, string(wire.AppendFloat(nil, f, 64)))
	}
	for want, f := range map[string]float32{
		"0.1": 0.1, "123456790": 123456789, "10000000000": 1e10, "1.17549e-38": 1.17549e-38, "0.9999999": 0.9999999, "-3.4028235e38": -math.MaxFloat32, "1.5": 1.5,
	} {
		require.Equal(t, want, string(wire.AppendFloat(nil, float64(f), 32)))
	}
	seed := uint64(1)
	r := rand.New(rand.NewPCG(seed, seed))
	for range 20_000 {
		f := math.Float64frombits(r.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		back, err := strconv.ParseFloat(string(wire.AppendFloat([]byte("x"), f, 64)[1:]), 64)
		require.NoError(t, err)
		require.Equal(t, f, back)
	}
}
