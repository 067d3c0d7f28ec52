package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/predicate"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// checkFindingsMax bounds how many keys of one kind CheckTable names.
const checkFindingsMax = 10

// CheckTable compares what the ways of reading a table give, at one view, while it is in use: a scan of every stored column,
// the primary key in order, and every secondary index. Keys that are held twice are listed. extended looks every row up by
// its primary key as well, and values of each index; and it asks the zone maps, bitmaps and bloom filters of each column for
// NULL and a sample of its values. found is called with each finding; the result is the number of rows.
//
// A comparison is by counts and sums of hashes of (indexed value, primary key), in parts; only parts that differ are read
// once more to name rows, so it takes no memory to speak of. Errors are those of reading: a corrupt file is one.
func (e *Engine) CheckTable(ctx context.Context, tbl *TableEntry, extended bool, found func(what string)) (rows uint64, err error) {
	ot, err := e.openTable(ctx, tbl)
	if err != nil {
		return 0, err
	}
	txn := e.Begin(TxnOptions{ReadOnly: true})
	defer txn.Rollback()
	c := &tableCheck{ctx: ctx, txn: txn, tbl: tbl, ot: ot, found: found, extended: extended, seed: maphash.MakeSeed()}
	c.indexes = tbl.storedIndexes()
	if len(c.indexes) != len(ot.indexed) {
		return 0, fmt.Errorf("%s.%s was altered meanwhile: %w", tbl.Database, tbl.Name, errs.ErrConflict)
	}
	if err := c.scan(); err != nil {
		return c.all.rows, err
	}
	if err := c.pruning(); err != nil || ot.keyless() {
		return c.all.rows, err
	}
	if err := c.primary(); err != nil {
		return c.all.rows, err
	}
	for i := range c.indexes {
		if err := c.index(i); err != nil {
			return c.all.rows, err
		}
	}
	return c.all.rows, nil
}

// digestParts is how many parts a set of entries is compared in; digestPartsNamed of those that differ are looked at.
const (
	digestParts      = 4096
	digestPartsNamed = 64
)

// digest sums up a set of entries, in any order, by parts.
type digest struct {
	rows  uint64
	parts [digestParts]struct{ rows, sum uint64 }
}

// tableCheck is one run of CheckTable.
type tableCheck struct {
	ctx      context.Context //nolint:containedctx // of one call
	txn      *Txn
	tbl      *TableEntry
	ot       *openTable
	indexes  []lsm.IndexDef
	seed     maphash.Seed
	found    func(string)
	extended bool

	all     digest    // of primary keys, by a scan
	byIndex []*digest // of (value, primary key), by a scan
	samples [][]any   // of the values of each column, if extended
}

// hash is that of an entry, and the part it belongs to.
func (c *tableCheck) hash(value, key rowkey.Key) (sum uint64, part int) {
	var h maphash.Hash
	h.SetSeed(c.seed)
	maphash.WriteComparable(&h, len(value))
	_, _ = h.WriteString(string(value)) // never fails
	_, _ = h.WriteString(string(key))
	sum = h.Sum64()
	return sum, int(sum >> 32 % digestParts)
}

// add takes in an entry of two keys.
func (c *tableCheck) add(d *digest, value, key rowkey.Key) {
	sum, part := c.hash(value, key)
	d.rows++
	d.parts[part].rows++
	d.parts[part].sum += sum
}

func (c *tableCheck) each(spec lsm.ScanSpec, visit func(arrow.RecordBatch) error) (err error) {
	r, err := c.txn.Scan(c.ctx, c.tbl, Consistent, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = visit(rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
}

// keyPositions lists 0, 1, … for the columns of the primary key where a scan gives them first.
func (c *tableCheck) keyPositions() []int {
	at := make([]int, len(c.ot.keyCols))
	for i := range at {
		at[i] = i
	}
	return at
}

// scan reads every column of every row.
func (c *tableCheck) scan() error {
	for range c.indexes {
		c.byIndex = append(c.byIndex, &digest{})
	}
	return c.each(lsm.ScanSpec{Columns: c.ot.allColumns}, func(rec arrow.RecordBatch) error {
		c.sample(rec)
		if c.ot.keyless() {
			c.all.rows += uint64(rec.NumRows())
			return nil
		}
		keys, err := c.ot.encoder.Batch(rec, c.ot.keyCols)
		if err != nil {
			return err
		}
		for _, k := range keys {
			c.add(&c.all, "", k)
		}
		for i, d := range c.indexes {
			values, err := c.ot.indexed[i].Batch(rec, []int{d.Column})
			if err != nil {
				return fmt.Errorf("index %s: %w", d.Name, err)
			}
			for row, k := range keys {
				if !rec.Column(d.Column).IsNull(row) { // an index over a column has no NULL
					c.add(c.byIndex[i], values[row], k)
				}
			}
		}
		if c.extended {
			return c.lookUp(keys)
		}
		return nil
	})
}

// samplesMax bounds the values of a column that an extended check asks for, sampleEvery is how many rows lie between two.
const samplesMax, sampleEvery = 512, 509

// sample takes values of every column of a batch along.
func (c *tableCheck) sample(rec arrow.RecordBatch) {
	if !c.extended {
		return
	}
	if c.samples == nil {
		c.samples = make([][]any, rec.NumCols())
	}
	for i, col := range rec.Columns() {
		if !predicable(col.DataType()) {
			continue
		}
		for row := 0; row < int(rec.NumRows()) && len(c.samples[i]) < samplesMax; row += sampleEvery {
			if !col.IsNull(row) {
				c.samples[i] = append(c.samples[i], arrowx.Value(col, row))
			}
		}
	}
}

// predicable reports whether a predicate can name values of a type: not vectors.
func predicable(t arrow.DataType) bool {
	return arrowx.Supported(t) && t.ID() != arrow.FIXED_SIZE_LIST
}

// pruning compares what zone maps, bitmaps and bloom filters leave of the rows with NULL, or one of the sampled values, in a
// column with a scan.
func (c *tableCheck) pruning() error {
	for column, values := range c.samples {
		if !predicable(c.tbl.Schema.Field(column).Type) {
			continue
		}
		for _, filter := range []predicate.Expr{predicate.In{Column: column, Values: values}, predicate.IsNull{Column: column}} {
			err := c.each(lsm.ScanSpec{Filter: filter, Verify: true}, func(arrow.RecordBatch) error { return nil })
			if errors.Is(err, errs.ErrCorruption) {
				c.found(fmt.Sprintf("an index of column %s does not find all rows: %v", c.tbl.Schema.Field(column).Name, err))
				break
			}
			if err != nil {
				return fmt.Errorf("read by column %s: %w", c.tbl.Schema.Field(column).Name, err)
			}
		}
	}
	return nil
}

// lookUp finds rows by their keys.
func (c *tableCheck) lookUp(keys []rowkey.Key) error {
	want := slices.Compact(slices.Sorted(slices.Values(keys)))
	got := make([]rowkey.Key, 0, len(want))
	err := c.each(lsm.ScanSpec{Columns: c.ot.keyCols, Keys: want}, func(rec arrow.RecordBatch) error {
		more, err := c.ot.encoder.Batch(rec, c.keyPositions())
		got = append(got, more...)
		return err
	})
	if err != nil {
		return err
	}
	named := 0
	for _, k := range want {
		if _, ok := slices.BinarySearch(got, k); !ok && named < checkFindingsMax {
			named++
			c.found("a row is not found by its primary key " + c.text(k))
		}
	}
	return nil
}

// entries reads by an index, or without one by the primary key.
func (c *tableCheck) entries(i int, r lsm.KeyRange, visit func(value, key rowkey.Key) error) error {
	spec := lsm.ScanSpec{Columns: c.ot.keyCols, Range: &r}
	if i >= 0 {
		spec = lsm.ScanSpec{Columns: append(slices.Clone(c.ot.keyCols), c.indexes[i].Column), Index: &lsm.IndexRange{Index: i, Range: r}}
	}
	return c.each(spec, func(rec arrow.RecordBatch) error {
		keys, err := c.ot.encoder.Batch(rec, c.keyPositions())
		if err != nil {
			return err
		}
		values := make([]rowkey.Key, len(keys))
		if i >= 0 {
			if values, err = c.ot.indexed[i].Batch(rec, []int{len(spec.Columns) - 1}); err != nil {
				return err
			}
		}
		for row, k := range keys {
			if err := visit(values[row], k); err != nil {
				return err
			}
		}
		return nil
	})
}

// primary reads the keys in order and compares them with the scan.
func (c *tableCheck) primary() error {
	var d digest
	var last rowkey.Key
	disorder := false
	err := c.entries(-1, lsm.KeyRange{}, func(value, k rowkey.Key) error {
		disorder = disorder || d.rows > 0 && k < last
		last = k
		c.add(&d, value, k)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read by the primary key: %w", err)
	}
	if disorder {
		c.found("the primary key does not give rows in order")
	}
	return c.compare(-1, &c.all, &d)
}

// lookUpEvery is how many entries of an index lie between two that an extended check looks up.
const lookUpEvery = 64

// index reads a secondary index and compares it with the scan.
func (c *tableCheck) index(i int) error {
	var d digest
	var last rowkey.Key
	var probes []rowkey.Key
	disorder := false
	err := c.entries(i, lsm.KeyRange{}, func(value, k rowkey.Key) error {
		disorder = disorder || d.rows > 0 && value < last
		if c.extended && d.rows%lookUpEvery == 0 {
			probes = append(probes, value)
		}
		last = value
		c.add(&d, value, k)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read by index %s: %w", c.indexes[i].Name, err)
	}
	if disorder {
		c.found("index " + c.indexes[i].Name + " does not give rows in order")
	}
	for _, v := range slices.Compact(probes) {
		n, wrong := 0, 0
		err := c.entries(i, lsm.KeyRange{Lo: v, Hi: v + "\x00"}, func(value, _ rowkey.Key) error {
			n++
			if value != v {
				wrong++
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("look up in index %s: %w", c.indexes[i].Name, err)
		}
		if n == 0 || wrong > 0 {
			c.found(fmt.Sprintf("index %s does not find rows by their value: %d found, %d of them with another", c.indexes[i].Name, n, wrong))
			break
		}
	}
	return c.compare(i, c.byIndex[i], &d)
}

// compare names what a scan and an index do not have in common.
func (c *tableCheck) compare(i int, scan, index *digest) error {
	differ := make(map[int]bool)
	for p := range scan.parts {
		if scan.parts[p] != index.parts[p] && len(differ) < digestPartsNamed {
			differ[p] = true
		}
	}
	if len(differ) == 0 {
		return nil
	}
	what := "the primary key"
	if i >= 0 {
		what = "index " + c.indexes[i].Name
	}
	c.found(fmt.Sprintf("%s finds %d rows, a scan %d", what, index.rows, scan.rows))
	type entry struct{ value, key rowkey.Key }
	type count struct{ scan, index int }
	counts := make(map[entry]count)
	take := func(value, key rowkey.Key, one count) {
		if _, p := c.hash(value, key); differ[p] {
			n := counts[entry{value, key}]
			counts[entry{value, key}] = count{n.scan + one.scan, n.index + one.index}
		}
	}
	columns := slices.Clone(c.ot.keyCols)
	if i >= 0 {
		columns = append(columns, c.indexes[i].Column)
	}
	err := c.each(lsm.ScanSpec{Columns: columns}, func(rec arrow.RecordBatch) error {
		keys, err := c.ot.encoder.Batch(rec, c.keyPositions())
		if err != nil {
			return err
		}
		values := make([]rowkey.Key, len(keys))
		if i >= 0 {
			if values, err = c.ot.indexed[i].Batch(rec, []int{len(columns) - 1}); err != nil {
				return err
			}
		}
		for row, k := range keys {
			if i < 0 || !rec.Column(len(columns)-1).IsNull(row) {
				take(values[row], k, count{scan: 1})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = c.entries(i, lsm.KeyRange{}, func(value, key rowkey.Key) error {
		take(value, key, count{index: 1})
		return nil
	})
	if err != nil {
		return err
	}
	named := 0
	order := func(a, b entry) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value)) }
	for _, x := range slices.SortedFunc(maps.Keys(counts), order) {
		n := counts[x]
		if n.scan == n.index || named >= checkFindingsMax {
			continue
		}
		named++
		switch {
		case n.scan > 1:
			c.found(fmt.Sprintf("primary key %s is there %d times, %s finds %d: another writer brought it again", c.text(x.key), n.scan, what, n.index))
		case n.scan > n.index:
			c.found(fmt.Sprintf("%s does not find the row with primary key %s", what, c.text(x.key)))
		default:
			c.found(fmt.Sprintf("%s finds a row with primary key %s, a scan does not", what, c.text(x.key)))
		}
	}
	return nil
}

// text writes a key for a person.
func (c *tableCheck) text(k rowkey.Key) string {
	out := ""
	for i := range c.ot.keyCols {
		v, err := c.ot.encoder.Cell(k, i)
		if err != nil {
			return fmt.Sprintf("%x", string(k))
		}
		if b, ok := v.([]byte); ok {
			v = fmt.Sprintf("%q", b)
		}
		if out += fmt.Sprint(v); i < len(c.ot.keyCols)-1 {
			out += ", "
		}
	}
	return "(" + out + ")"
}
