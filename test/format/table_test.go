package format

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/table"
)

// openTable opens the newest version of a table directory.
func openTable(dir string) (*table.Dataset, error) {
	st, err := objstore.OpenDisk(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	return table.Open(context.Background(), st, filepath.Base(dir))
}

// readTable compares a table with its truth by scan and by take.
func readTable(t *testing.T, c *corpus, e entry) []fault {
	t.Helper()
	truth := readTruth(t, c.path(e.Truth))
	var faults []fault
	check := func(step string, f func() error) bool {
		err := guard(f)
		if err != nil {
			faults = append(faults, fault{e.Name, "*", step, err.Error()})
		}
		return err == nil
	}
	var d *table.Dataset
	if !check("open", func() (err error) {
		d, err = openTable(c.path(e.Path))
		if err == nil && d.CountRows() != uint64(truth.NumRows()) {
			err = fmt.Errorf("%d rows, want %d", d.CountRows(), truth.NumRows())
		}
		return err
	}) {
		return faults
	}
	ok := true
	for i, id := range d.FieldIDs() {
		ok = check("column scan", func() error { return scanTable(d, []int32{id}, truth, i) }) && ok
	}
	if ok {
		check("table scan", func() error { return scanTable(d, d.FieldIDs(), truth, 0) })
		check("table take", func() error { return takeTable(d, truth, seeded(e.Name)) })
	}
	return faults
}

// scanTable compares the live rows of some columns; first is the column of the first in the truth.
func scanTable(d *table.Dataset, ids []int32, truth arrow.RecordBatch, first int) error {
	rd, err := d.Scan(context.Background(), ids)
	if err != nil {
		return err
	}
	at := 0
	for {
		rec, err := rd.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(err, rd.Close())
		}
		n := int(rec.NumRows())
		for k := range ids {
			s := "more rows than there are"
			if at+n <= int(truth.NumRows()) {
				s = matchRows(truth.Column(first+k), at, rec.Column(k), 0, n)
			}
			if s != "" {
				rec.Release()
				return errors.Join(fmt.Errorf("column %q: %s", truth.ColumnName(first+k), s), rd.Close())
			}
		}
		at += n
		rec.Release()
	}
	if at != int(truth.NumRows()) {
		return fmt.Errorf("scan ends at row %d of %d", at, truth.NumRows())
	}
	return rd.Close()
}

// takeTable compares random live rows of every fragment.
func takeTable(d *table.Dataset, truth arrow.RecordBatch, rng *rand.Rand) error {
	ctx := context.Background()
	base := 0 // row of the truth where the fragment begins
	for _, f := range d.Fragments() {
		deleted, err := d.Deletions(ctx, f)
		if err != nil {
			return err
		}
		var live []uint32
		for o := range uint32(f.PhysicalRows) {
			if deleted == nil || !deleted.Contains(o) {
				live = append(live, o)
			}
		}
		if len(live) == 0 {
			continue
		}
		rows := chosen(rng, len(live), 40)
		offsets := make([]uint32, len(rows))
		for i, r := range rows {
			offsets[i] = live[r]
			rows[i] += uint64(base)
		}
		base += len(live)
		rec, err := d.TakeFragment(ctx, f, d.FieldIDs(), offsets)
		if err != nil {
			return err
		}
		for k := range int(rec.NumCols()) {
			if s := matchTaken(truth.Column(k), rec.Column(k), rows); s != "" {
				rec.Release()
				return fmt.Errorf("fragment %d: column %q: %s", f.ID, truth.ColumnName(k), s)
			}
		}
		rec.Release()
	}
	return nil
}

// readRefused says what is wrong if a file or table of an unknown version is not refused as unsupported.
func readRefused(c *corpus, e entry) []fault {
	err := guard(func() error {
		_, err := openTable(c.path(e.Path))
		if errors.Is(err, errs.ErrUnsupported) {
			return nil
		}
		return fmt.Errorf("read: %v, want unsupported", err)
	})
	if err != nil {
		return []fault{{e.Name, "*", "refuse", err.Error()}}
	}
	return nil
}
