package lsm_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/internal/predicate"
	"lancesql/lsm"
)

// zoneBenchSchema is a row of eight columns, about 90 bytes.
func zoneBenchSchema() *arrow.Schema {
	return keyedFields(
		arrow.Field{Name: "at", Type: &arrow.TimestampType{Unit: arrow.Microsecond}},
		arrow.Field{Name: "qty", Type: arrow.PrimitiveTypes.Int32},
		arrow.Field{Name: "price", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		arrow.Field{Name: "tax", Type: arrow.PrimitiveTypes.Float64},
		arrow.Field{Name: "flag", Type: arrow.BinaryTypes.String},
		arrow.Field{Name: "comment", Type: arrow.BinaryTypes.String, Nullable: true},
		arrow.Field{Name: "day", Type: arrow.PrimitiveTypes.Date32},
	)
}

func zoneBenchRows(rng *rand.Rand, from, n int) []arrowx.Row {
	rows := make([]arrowx.Row, n)
	for i := range rows {
		id := int64(from + i)
		rows[i] = arrowx.Row{id, arrow.Timestamp(id * 1000), rng.Int32N(50), rng.Float64() * 1000, rng.Float64(), "ANR"[rng.IntN(3):][:1],
			fmt.Sprintf("carefully final deposits %016x", rng.Uint64()), arrow.Date32(id / 4096)}
	}
	return rows
}

func zoneBenchTable(b *testing.B, z lsm.ZoneMapOptions) *plainTable {
	st, err := objstore.OpenLocal(vfs.Default, b.TempDir())
	require.NoError(b, err)
	return newPlainTable(b, st, zoneBenchSchema(), z, 0)
}

// BenchmarkMergeWithZones is the cost of zone maps in a merge of 131,072 rows into a table on disk.
func BenchmarkMergeWithZones(b *testing.B) {
	for _, c := range []struct {
		name string
		z    lsm.ZoneMapOptions
	}{{"off", lsm.ZoneMapOptions{Off: true}}, {"gathered", lsm.ZoneMapOptions{EveryRows: 1 << 40}}, {"written", lsm.ZoneMapOptions{EveryRows: -1}}} {
		b.Run(c.name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			p := zoneBenchTable(b, c.z)
			const rows, batch = 1 << 17, 1 << 13
			next := 0
			for b.Loop() {
				b.StopTimer()
				for range rows / batch {
					p.write(zoneBenchRows(rng, next, batch))
					next += batch
				}
				p.flush()
				b.StartTimer()
				p.merge()
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkSelectiveScan reads 1 % of a clustered column of 2 M rows.
func BenchmarkSelectiveScan(b *testing.B) {
	const rows, batch = 2_000_000, 10_000
	for _, off := range []bool{false, true} {
		b.Run(fmt.Sprint("zones=", !off), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			p := zoneBenchTable(b, lsm.ZoneMapOptions{Off: off})
			for from := 0; from < rows; from += batch {
				p.write(zoneBenchRows(rng, from, batch))
				if (from/batch)%50 == 49 {
					p.flush()
					p.merge()
				}
			}
			at := func(id int) any { return arrow.Timestamp(int64(id) * 1000) }
			e := predicate.And{Terms: []predicate.Expr{
				predicate.Compare{Column: 1, Op: predicate.Ge, Value: at(rows / 2)}, predicate.Compare{Column: 1, Op: predicate.Lt, Value: at(rows/2 + rows/100)},
			}}
			var pruning lsm.Pruning
			for b.Loop() {
				found, pr := p.rows([]int{0, 3}, e)
				require.Len(b, found, rows/100)
				pruning = pr
			}
			b.ReportMetric(float64(pruning.Rows-pruning.RowsPruned), "rows-read")
		})
	}
}
