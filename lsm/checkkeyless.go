package lsm

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"

	"lancesql/internal/arrowx"
	"lancesql/internal/rowkey"
)

// strangers counts those of n rows that belong to other shards than id; where is the shard of the last of them. op gives
// what decides about a row.
func (sh *sharder) strangers(id uuid.UUID, n int, op func(i int) Op) (strangers int, where uuid.UUID, err error) {
	for i := range n {
		v, err := sh.value(op(i))
		if err != nil {
			return strangers, where, err
		}
		at, err := sh.shard(v)
		if err != nil {
			return strangers, where, err
		}
		if at != id {
			strangers, where = strangers+1, at
		}
	}
	return strangers, where, nil
}

// byKey is the writes of keys, for strangers.
func byKey(keys []rowkey.Key) func(int) Op { return func(i int) Op { return Op{Key: keys[i]} } }

// byCell is the writes of rows of a table without a key, for strangers. column is the sharding column; it is not looked at
// without sharding.
func (sh *sharder) byCell(column arrow.Array) func(int) Op {
	row := make(arrowx.Row, sh.column+1)
	return func(i int) Op {
		if !sh.single() {
			row[sh.column] = arrowx.Value(column, i)
		}
		return Op{Row: row}
	}
}

// generationRows is generationKeys for a table without a key: its rows belong to the shard, none is a delete row, and
// nothing hides one.
func (s *shardCheck) generationRows(g *generation) (sound bool, err error) {
	tombstone := len(g.fieldIDs) - 1
	ids := []int32{g.fieldIDs[tombstone], g.fieldIDs[s.sharder.column]}
	strangers, graves := 0, 0
	err = eachBatch(s.ctx, g.ds, g.frag, ids, s.t.o.BatchRows, func(_ uint64, rec arrow.RecordBatch) error {
		tomb, ok := rec.Column(0).(*array.Boolean)
		if !ok {
			return fmt.Errorf("column %s is not boolean", TombstoneColumn)
		}
		for i := range tomb.Len() {
			if tomb.Value(i) {
				graves++
			}
		}
		if s.sh.manual {
			return s.ctx.Err()
		}
		n, _, err := s.sharder.strangers(s.dir.id, int(rec.NumRows()), s.sharder.byCell(rec.Column(1)))
		strangers += n
		return err
	})
	if err != nil {
		return false, err
	}
	if strangers > 0 {
		s.add(Error, g.ds.Root(), "%d rows belong to other shards", strangers)
	}
	if graves > 0 {
		s.add(Error, g.ds.Root(), "%d delete rows in a table without a key: nothing says what they delete", graves)
	}
	have, err := g.ds.Deletions(s.ctx, g.frag)
	if err != nil {
		return false, nil // reported with the fragment
	}
	if have != nil && !have.IsEmpty() {
		s.add(Error, g.ds.Root(), "the deletion vector hides %d rows, though nothing replaces rows of a table without a key", have.GetCardinality())
	}
	return true, nil
}
