package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/engine"
	"lancesql/internal/arrowx"
	"lancesql/internal/predicate"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// Columns, as TPC-H has them: the date grows with the order's number, the part is anyone's.
const (
	colOrder, colPart, colSupplier, colQuantity, colPrice, colDiscount, colShipped, colFlag, colComment = 0, 1, 2, 3, 4, 5, 6, 7, 8
)

// The ranges measured, each 1 % of the rows.
const (
	clustered   = "1 % of the dates, as they were loaded"
	unclustered = "1 % of the parts, as they were loaded"
	reclustered = "1 % of the parts, reclustered by part"
)

const (
	ordersPerDay = 2000
	batchRows    = 20_000
	bufferRows   = 1 << 20 // a flush and a merge for so many
)

func tableDef() engine.TableDef {
	key := arrow.NewMetadata(
		[]string{"lance-schema:unenforced-primary-key", "lance-schema:unenforced-primary-key:position"}, []string{"true", "1"})
	return engine.TableDef{AutoColumn: -1, Shape: []byte(`{}`), Schema: arrow.NewSchema([]arrow.Field{
		{Name: "orderkey", Type: arrow.PrimitiveTypes.Int64, Metadata: key},
		{Name: "partkey", Type: arrow.PrimitiveTypes.Int32},
		{Name: "suppkey", Type: arrow.PrimitiveTypes.Int32},
		{Name: "quantity", Type: arrow.PrimitiveTypes.Int32},
		{Name: "price", Type: arrow.PrimitiveTypes.Float64},
		{Name: "discount", Type: arrow.PrimitiveTypes.Float64},
		{Name: "shipdate", Type: arrow.PrimitiveTypes.Date32},
		{Name: "flag", Type: arrow.BinaryTypes.String},
		{Name: "comment", Type: arrow.BinaryTypes.String},
	}, nil), Indexes: []engine.IndexDef{{Name: "by_supplier", Column: colSupplier, Parts: []int{colSupplier}}}}
}

// bench is an engine with one table.
type bench struct {
	e     *engine.Engine
	table *engine.TableEntry
	rng   *rand.Rand
	rows  int
}

// open makes the table; nothing happens by itself.
func open(ctx context.Context, dir string, rows int) (*bench, error) {
	return openWith(ctx, dir, rows, engine.TableOptions{})
}

func openWith(ctx context.Context, dir string, rows int, o engine.TableOptions) (*bench, error) {
	dir, err := os.MkdirTemp(dir, "data-")
	if err != nil {
		return nil, err
	}
	e, err := engine.Open(ctx, engine.Config{DataDir: dir, Workers: engine.NoWorkers, MemTableRows: bufferRows, MemTableBytes: 1 << 34, Freshness: engine.NoFreshness,
		FrozenSoft: 1000, FrozenHard: 1000, GenerationsSoft: 1000, GenerationsHard: 1000, MergeAfterGenerations: 1000},
		engine.Components{TableOptions: func(*engine.TableEntry) engine.TableOptions { return o }})
	if err != nil {
		return nil, err
	}
	b := &bench{e: e, rng: rand.New(rand.NewPCG(1, 2)), rows: rows}
	if err := e.CreateDatabase(ctx, "db", nil); err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	if b.table, err = e.CreateTable(ctx, "db", "lineitem", tableDef()); err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	return b, nil
}

func (b *bench) row(i int) arrowx.Row {
	return arrowx.Row{int64(i), b.rng.Int32N(int32(b.rows)), b.rng.Int32N(int32(b.rows)), 1 + b.rng.Int32N(50), float64(b.rng.IntN(10_000_000)) / 100,
		float64(b.rng.IntN(11)) / 100, arrow.Date32(8000 + i/ordersPerDay), "ANR"[i%3 : i%3+1], fmt.Sprintf("furiously even deposits %08x", b.rng.Uint32())}
}

// insert commits rows first … first+n-1.
func (b *bench) insert(ctx context.Context, first, n int) error {
	x := b.e.Begin(engine.TxnOptions{})
	defer x.Rollback()
	x.BeginStatement()
	for i := range n {
		if err := x.Insert(ctx, b.table, b.row(first+i)); err != nil {
			return err
		}
	}
	return x.Commit(ctx)
}

func (b *bench) load(ctx context.Context) error {
	for at := 0; at < b.rows; at += batchRows {
		if err := b.insert(ctx, at, min(batchRows, b.rows-at)); err != nil {
			return err
		}
		if (at/batchRows+1)%(bufferRows/batchRows) == 0 {
			if err := b.e.FlushTables(ctx, []engine.TableID{b.table.ID}); err != nil {
				return err
			}
		}
	}
	return b.e.FlushTables(ctx, []engine.TableID{b.table.ID})
}

// read drains a scan and returns its rows.
func (b *bench) read(ctx context.Context, spec lsm.ScanSpec) (rows int, err error) {
	x := b.e.Begin(engine.TxnOptions{})
	defer x.Rollback()
	x.BeginStatement()
	r, err := x.Scan(ctx, b.table, engine.Consistent, spec)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return 0, err
		}
		rows += int(rec.NumRows())
		rec.Release()
	}
}

func allColumns() []int {
	return []int{colOrder, colPart, colSupplier, colQuantity, colPrice, colDiscount, colShipped, colFlag, colComment}
}

// measure runs a scan three times and keeps the fastest.
func (b *bench) measure(ctx context.Context, name string, spec lsm.ScanSpec) (f readFigures, err error) {
	for range 3 {
		stats := &lsm.ReadStats{}
		spec.Columns, spec.Stats = allColumns(), stats
		watch := start()
		rows, err := b.read(ctx, spec)
		if err != nil {
			return f, err
		}
		if s := watch.elapsed().Seconds(); f.Name == "" || s < f.Seconds {
			f = readFigures{Name: name, Rows: rows, MB: float64(stats.Store.Bytes()) / 1e6, Seconds: s, Plan: stats.String()}
		}
	}
	return f, nil
}

func (b *bench) full(ctx context.Context) (readFigures, error) {
	f, err := b.measure(ctx, "full scan", lsm.ScanSpec{})
	if err == nil && f.Rows != b.rows {
		err = fmt.Errorf("%d rows of %d", f.Rows, b.rows)
	}
	return f, err
}

// one measures one of the ranges.
func (b *bench) one(ctx context.Context, name string, full readFigures) (readFigures, error) {
	between := func(column int, lo, hi any) predicate.Expr {
		return predicate.And{Terms: []predicate.Expr{
			predicate.Compare{Column: column, Op: predicate.Ge, Value: lo}, predicate.Compare{Column: column, Op: predicate.Lt, Value: hi}}}
	}
	filter := between(colPart, int32(b.rows/2), int32(b.rows/2+b.rows/100))
	if name == clustered {
		days := max(1, b.rows/100/ordersPerDay)
		from := arrow.Date32(8000 + b.rows/2/ordersPerDay)
		filter = between(colShipped, from, from+arrow.Date32(days))
	}
	f, err := b.measure(ctx, name, lsm.ScanSpec{Filter: filter})
	if err != nil {
		return f, err
	}
	if want := b.rows / 100; f.Rows < want*8/10 || f.Rows > want*12/10 {
		return f, fmt.Errorf("%d rows, about %d expected", f.Rows, want)
	}
	f.Bytes, f.Faster = 100*f.MB/full.MB, full.Seconds/f.Seconds
	return f, nil
}

func (b *bench) recluster(ctx context.Context) error {
	done, err := b.e.Recluster(ctx, b.table.ID, lsm.Recluster{Columns: []int{colPart}, Buckets: 256})
	if want := uint64(b.rows); err == nil && done.Rows < want {
		err = fmt.Errorf("%d rows of %d", done.Rows, want)
	}
	return err
}

// points measures look-ups of the same rows again and again: what they need is in memory then.
func (b *bench) points(ctx context.Context) ([]pointFigure, error) {
	const hot, rounds = 256, 20
	if err := b.insert(ctx, b.rows, hot); err != nil { // stays in the MemTable
		return nil, err
	}
	key := func(t arrow.DataType, v any) (rowkey.Key, error) {
		enc, err := rowkey.NewEncoder([]arrow.DataType{t})
		if err != nil {
			return "", err
		}
		return enc.Tuple(v)
	}
	byKey := func(first, step int) func(i int) (lsm.ScanSpec, error) {
		return func(i int) (lsm.ScanSpec, error) {
			k, err := key(arrow.PrimitiveTypes.Int64, int64(first+i*step))
			return lsm.ScanSpec{Keys: []rowkey.Key{k}}, err
		}
	}
	bySupplier := func(i int) (lsm.ScanSpec, error) {
		k, err := key(arrow.PrimitiveTypes.Int32, int32(i*(b.rows/hot)))
		return lsm.ScanSpec{Index: &lsm.IndexRange{Index: 0, Range: lsm.KeyRange{Lo: k, Hi: rowkey.After(k)}}}, err
	}
	var out []pointFigure
	for _, p := range []struct {
		name string
		spec func(i int) (lsm.ScanSpec, error)
	}{
		{"row in a MemTable, by primary key", byKey(b.rows, 1)}, {"row in the base, by primary key", byKey(0, b.rows/hot)},
		{"rows in the base, by secondary key", bySupplier},
	} {
		var took []time.Duration
		found := 0
		for round := range rounds + 2 {
			for i := range hot {
				spec, err := p.spec(i)
				if err != nil {
					return nil, err
				}
				spec.Columns = allColumns()
				watch := start()
				n, err := b.read(ctx, spec)
				if err != nil {
					return nil, err
				}
				if d := watch.elapsed(); round >= 2 {
					took = append(took, d)
				}
				found += n
			}
		}
		if found == 0 {
			return nil, fmt.Errorf("%s: nothing found", p.name)
		}
		f := pointFigure{Name: p.name, P50: median(took)}
		f.Of = 1
		if len(out) > 0 {
			f.Of = f.P50 / out[0].P50
		}
		out = append(out, f)
	}
	return out, nil
}
