package format

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/objstore"
	"lancesql/lance/table"
)

// TestDamagedTables damages one object of a golden table at a time and reads the table.
func TestDamagedTables(t *testing.T) {
	c := golden(t)
	places := 60 // of each object
	if os.Getenv(envSoak) == "1" {
		places = 500
	}
	s := &sweep{}
	for _, e := range c.only("dataset") {
		objects := map[string][]byte{}
		total := 0
		require.NoError(t, filepath.WalkDir(c.path(e.Path), func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(p)
			rel, err2 := filepath.Rel(c.path(e.Path), p)
			objects["t.lance/"+filepath.ToSlash(rel)] = data
			total += len(data)
			return errors.Join(err, err2)
		}))
		s.checked = append(s.checked, e.Name+"/*")
		for name, data := range objects {
			if strings.Contains(name, "/_indices/") || len(data) == 0 {
				continue // not read here
			}
			s.object(t, e, objects, name, total, places)
		}
	}
	t.Logf("%d damaged tables read, at most %d KiB allocated (%s)", s.attempts, s.most>>10, s.worst)
	settle(t, s.faults, knownDamage(), s.checked)
}

// object sweeps over one object of a table.
func (s *sweep) object(t *testing.T, e entry, objects map[string][]byte, name string, total, places int) {
	t.Helper()
	rng := seeded(e.Name + name)
	for k := range places {
		st := objstore.NewMem()
		d := damaged(rng, objects[name], k|1) // the tail of these objects is no metadata
		for n, data := range objects {
			if n == name {
				data = d.data
			}
			require.NoError(t, st.Put(context.Background(), n, data))
		}
		s.attempts++
		before, start := allocated(), time.Now()
		err := guard(func() error { return readDamagedTable(st, e.Rows) })
		spent, took := allocated()-before, time.Since(start)
		what := ""
		switch {
		case err != nil && strings.HasPrefix(err.Error(), "panic"):
			what = err.Error()
		case took > sweepTime:
			what = fmt.Sprintf("takes %s", took.Round(time.Second))
		case spent > sweepAllocatedBase+sweepAllocatedPer*uint64(total):
			what = fmt.Sprintf("allocates too much: %d MiB for a table of %d KiB: %v", spent>>20, total>>10, err)
		}
		if spent > s.most {
			s.most, s.worst = spent, fmt.Sprintf("%s, %s at %d of %s", e.Name, d.name, d.at, name)
		}
		if what != "" {
			s.faults = append(s.faults, fault{e.Name, "*", "damaged", fmt.Sprintf("%s (%s at %d of %s)", what, d.name, d.at, name)})
		}
	}
}

// readDamagedTable scans a table, up to a few times the rows it should have.
func readDamagedTable(st objstore.Store, rows int) error {
	ctx := context.Background()
	d, err := table.Open(ctx, st, "t.lance")
	if err != nil {
		return err
	}
	rd, err := d.Scan(ctx, d.FieldIDs())
	if err != nil {
		return err
	}
	for seen := 0; seen <= 4*rows+sweepBatch; {
		rec, err := rd.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(err, rd.Close())
		}
		seen += int(rec.NumRows())
		rec.Release()
	}
	return rd.Close()
}
