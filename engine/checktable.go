package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// checkFindingsMax bounds how many keys of one kind CheckTable names.
const checkFindingsMax = 10

// CheckTable compares what the ways of reading a table give, at one view, while it is in use: a scan of every stored column,
// the primary key in order, and every secondary index. Keys that are held twice are listed. extended looks every row up by
// its primary key as well. found is called with each finding; the result is the number of rows.
//
// A comparison is by count and by sums of hashes of (indexed value, primary key), so it takes no memory to speak of.
// Errors are those of reading: a corrupt file is one.
func (e *Engine) CheckTable(ctx context.Context, tbl *TableEntry, extended bool, found func(what string)) (rows uint64, err error) {
	ot, err := e.openTable(ctx, tbl)
	if err != nil {
		return 0, err
	}
	txn := e.Begin(TxnOptions{ReadOnly: true})
	defer txn.Rollback()
	c := &tableCheck{ctx: ctx, txn: txn, tbl: tbl, ot: ot, found: found, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	c.indexes = tbl.storedIndexes()
	if len(c.indexes) != len(ot.indexed) {
		return 0, fmt.Errorf("%s.%s was altered meanwhile: %w", tbl.Database, tbl.Name, errs.ErrConflict)
	}
	if err := c.scan(extended); err != nil {
		return 0, err
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

// digest sums up a set of entries, in any order.
type digest struct {
	rows uint64
	sums [2]uint64
}

// tableCheck is one run of CheckTable.
type tableCheck struct {
	ctx     context.Context //nolint:containedctx // of one call
	txn     *Txn
	tbl     *TableEntry
	ot      *openTable
	indexes []lsm.IndexDef
	seeds   [2]maphash.Seed
	found   func(string)

	all     digest   // of primary keys, by a scan
	byIndex []digest // of (value, primary key), by a scan
}

// add takes in an entry of two keys.
func (c *tableCheck) add(d *digest, value, key rowkey.Key) {
	d.rows++
	for i, seed := range c.seeds {
		var h maphash.Hash
		h.SetSeed(seed)
		maphash.WriteComparable(&h, len(value))
		_, _ = h.WriteString(string(value)) // never fails
		_, _ = h.WriteString(string(key))
		d.sums[i] += h.Sum64()
	}
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
func (c *tableCheck) scan(extended bool) error {
	c.byIndex = make([]digest, len(c.indexes))
	return c.each(lsm.ScanSpec{Columns: c.ot.allColumns}, func(rec arrow.RecordBatch) error {
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
					c.add(&c.byIndex[i], values[row], k)
				}
			}
		}
		if extended {
			return c.lookUp(keys)
		}
		return nil
	})
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

// primary reads the keys in order and compares them with the scan.
func (c *tableCheck) primary() error {
	var d digest
	var last rowkey.Key
	twice, disorder := 0, false
	err := c.each(lsm.ScanSpec{Columns: c.ot.keyCols, Range: &lsm.KeyRange{}}, func(rec arrow.RecordBatch) error {
		keys, err := c.ot.encoder.Batch(rec, c.keyPositions())
		if err != nil {
			return err
		}
		for _, k := range keys {
			switch {
			case d.rows > 0 && k == last:
				if twice++; twice <= checkFindingsMax {
					c.found("primary key " + c.text(k) + " is there twice: another writer brought it again")
				}
			case d.rows > 0 && k < last:
				disorder = true
			}
			last = k
			c.add(&d, "", k)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read by the primary key: %w", err)
	}
	if twice > checkFindingsMax {
		c.found(fmt.Sprintf("%d primary keys in all are there twice", twice))
	}
	if disorder {
		c.found("the primary key does not give rows in order")
	}
	c.compare("the primary key", c.all, d)
	return nil
}

// index reads a secondary index and compares it with the scan.
func (c *tableCheck) index(i int) error {
	var d digest
	columns := append(slices.Clone(c.ot.keyCols), c.indexes[i].Column)
	err := c.each(lsm.ScanSpec{Columns: columns, Index: &lsm.IndexRange{Index: i}}, func(rec arrow.RecordBatch) error {
		keys, err := c.ot.encoder.Batch(rec, c.keyPositions())
		if err != nil {
			return err
		}
		values, err := c.ot.indexed[i].Batch(rec, []int{len(columns) - 1})
		if err != nil {
			return err
		}
		for row, k := range keys {
			c.add(&d, values[row], k)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read by index %s: %w", c.indexes[i].Name, err)
	}
	c.compare("index "+c.indexes[i].Name, c.byIndex[i], d)
	return nil
}

func (c *tableCheck) compare(what string, scan, index digest) {
	switch {
	case scan.rows != index.rows:
		c.found(fmt.Sprintf("%s finds %d rows, a scan %d", what, index.rows, scan.rows))
	case scan.sums != index.sums:
		c.found(fmt.Sprintf("%s finds other rows than a scan, although as many (%d)", what, scan.rows))
	}
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
