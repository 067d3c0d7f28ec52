package lsm

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"lancesql/internal/errs"
	"lancesql/internal/predicate"
	"lancesql/internal/rowkey"
	"lancesql/lance/schema"
	"lancesql/lance/table"
)

// Transforms of sharding specs. Spec: MemWAL, "Sharding".
const (
	transformUnsharded = "unsharded"
	transformBucket    = "bucket"
	transformIdentity  = "identity"
)

const (
	specID      = 1        // of the one sharding spec a table has
	fieldID     = "bucket" // of its one field, whatever the transform
	bucketsMax  = 1024
	numBuckets  = "num_buckets"
	shardsLimit = 1 << 15 // shards of one table
)

// shardNamespace is the UUIDv5 namespace from which shard ids are derived, so that every writer of a table
// finds the same shard. Spec: memwal.md §5.2.
var shardNamespace = uuid.MustParse("4c534d57-5249-5445-5f53-484152443031")

func shardID(name string) uuid.UUID { return uuid.NewSHA1(shardNamespace, []byte(name)) }

// unshardedID is the id of the single shard of a table without sharding.
func unshardedID() uuid.UUID { return shardID(transformUnsharded) }

// Sharding says how the rows of a new table are spread. The zero value is one shard. Column must be a column of
// the primary key, if there is one: that keeps one key in one shard. At most one of Buckets and Identity is set.
type Sharding struct {
	Column   string // name of a key column; of any column of a table without a key
	Buckets  int    // 1…1024: shard by hash
	Identity bool   // one shard for each value
}

// spec is the sharding spec as the table stores it, and the recorded number of shards.
func (sh Sharding) spec(s *schema.Schema) (table.ShardingSpec, uint32, error) {
	field := table.ShardingField{FieldID: fieldID, Transform: transformUnsharded, ResultType: "int32"}
	out := func(n uint32) (table.ShardingSpec, uint32, error) {
		return table.ShardingSpec{ID: specID, Fields: []table.ShardingField{field}}, n, nil
	}
	if sh.Buckets == 0 && !sh.Identity {
		return out(1)
	}
	f := s.FieldByName(sh.Column)
	if f == nil {
		return table.ShardingSpec{}, 0, fmt.Errorf("sharding column %q: %w", sh.Column, errs.ErrNotFound)
	}
	field.SourceIDs = []int32{f.ID}
	if sh.Identity {
		field.Transform, field.ResultType = transformIdentity, f.LogicalType
		switch f.LogicalType {
		case "string":
			field.ResultType = "utf8"
		case "large_string":
			field.ResultType = "large_utf8"
		case "bool":
			field.ResultType = "boolean"
		}
		return out(0)
	}
	if sh.Buckets < 1 || sh.Buckets > bucketsMax {
		return table.ShardingSpec{}, 0, fmt.Errorf("%d buckets, 1 to %d are possible: %w", sh.Buckets, bucketsMax, errs.ErrInvalid)
	}
	field.Transform = transformBucket
	field.Parameters = map[string]string{numBuckets: strconv.Itoa(sh.Buckets)}
	return out(uint32(sh.Buckets))
}

// sharder finds the shard of a row by its key, or by any of its cells if the table has no key. Immutable.
type sharder struct {
	transform string
	column    int // place among shardColumns
	typ       arrow.DataType
	encoder   *rowkey.Encoder // nil: no key
	only      uuid.UUID       // of transformUnsharded
	buckets   []uuid.UUID     // of transformBucket
}

// shardColumns is the columns that may decide where a row lies: the key's, or all if there is no key.
func shardColumns(physical *arrow.Schema, keyCols []int) []int {
	if len(keyCols) > 0 {
		return keyCols
	}
	all := make([]int, physical.NumFields())
	for i := range all {
		all[i] = i
	}
	return all
}

// newSharder reads the sharding of a table from its MemWAL entry. errs.ErrUnsupported for what no key decides.
func newSharder(m *table.MemWAL, s *schema.Schema, physical *arrow.Schema, keyCols []int, enc *rowkey.Encoder) (*sharder, error) {
	sh := &sharder{transform: transformUnsharded, encoder: enc, only: unshardedID()}
	if len(m.Specs) == 0 {
		return sh, nil
	}
	if len(m.Specs) > 1 || len(m.Specs[0].Fields) != 1 {
		return nil, fmt.Errorf("table with %d sharding specs: %w", len(m.Specs), errs.ErrUnsupported)
	}
	f := m.Specs[0].Fields[0]
	sh.transform = f.Transform
	if sh.transform == transformUnsharded {
		return sh, nil
	}
	if sh.transform != transformBucket && sh.transform != transformIdentity || f.Expression != "" || len(f.SourceIDs) != 1 {
		return nil, fmt.Errorf("sharding transform %q: %w", f.Transform, errs.ErrUnsupported)
	}
	sh.column = -1
	for i, c := range shardColumns(physical, keyCols) {
		if s.Fields[c].ID == f.SourceIDs[0] {
			sh.column, sh.typ = i, physical.Field(c).Type
		}
	}
	if sh.column < 0 {
		// Why: a key could then lie in two shards, and nothing would tell which row is the newest.
		return nil, fmt.Errorf("sharding by a column outside the primary key: %w", errs.ErrUnsupported)
	}
	if err := sh.checkType(); err != nil {
		return nil, err
	}
	if sh.transform == transformBucket {
		n, err := strconv.Atoi(f.Parameters[numBuckets])
		if err != nil || n < 1 || n > bucketsMax {
			return nil, errs.Corrupt(table.MemWALName, -1, "%s is %q", numBuckets, f.Parameters[numBuckets])
		}
		for i := range n {
			sh.buckets = append(sh.buckets, shardID("bucket-"+strconv.Itoa(i)))
		}
	}
	return sh, nil
}

// ShardableBy reports whether a column of type t can be sharded by.
func ShardableBy(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64,
		arrow.STRING, arrow.LARGE_STRING:
		return true
	}
	return false
}

// hashable reports whether the bucket transform takes a column that no key can have. Spec: memwal.md §6.
func hashable(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.FLOAT32, arrow.FLOAT64, arrow.DATE32, arrow.TIME32, arrow.TIME64, arrow.TIMESTAMP:
		return true
	}
	return false
}

func (sh *sharder) checkType() error {
	if !ShardableBy(sh.typ) && !(sh.encoder == nil && sh.transform == transformBucket && hashable(sh.typ)) {
		return fmt.Errorf("sharding by a column of type %s: %w", sh.typ, errs.ErrUnsupported)
	}
	return nil
}

// describe is the Sharding that makes the same spec.
func (sh *sharder) describe(key []string) Sharding {
	switch sh.transform {
	case transformBucket:
		return Sharding{Column: key[sh.column], Buckets: len(sh.buckets)}
	case transformIdentity:
		return Sharding{Column: key[sh.column], Identity: true}
	}
	return Sharding{}
}

// single reports whether there is only ever one shard of ours.
func (sh *sharder) single() bool { return sh.transform == transformUnsharded }

// value is what decides about the shard of a write, as rowkey.Encoder.Cell gives it; nil without sharding.
func (sh *sharder) value(op Op) (any, error) {
	switch {
	case sh.single():
		return nil, nil
	case sh.encoder != nil:
		return sh.encoder.Cell(op.Key, sh.column)
	case sh.column >= len(op.Row):
		return nil, fmt.Errorf("row has %d cells, column %d decides about its shard: %w", len(op.Row), sh.column, errs.ErrInvalid)
	}
	return shardValue(op.Row[sh.column])
}

// shardValue widens a cell of a row as rowkey.Encoder.Cell does; floats stay what they are.
func shardValue(cell any) (any, error) {
	switch v := cell.(type) {
	case nil, bool, int64, uint64, []byte, float32, float64:
		return v, nil
	case int8:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case uint8:
		return uint64(v), nil
	case uint16:
		return uint64(v), nil
	case uint32:
		return uint64(v), nil
	case string:
		return []byte(v), nil
	case arrow.Date32:
		return int64(v), nil
	case arrow.Time64:
		return int64(v), nil
	case arrow.Timestamp:
		return int64(v), nil
	}
	return nil, fmt.Errorf("sharding by a %T: %w", cell, errs.ErrUnsupported)
}

// shard returns the id of the shard of rows with that value. Spec: memwal.md §5.2, §6.
func (sh *sharder) shard(v any) (uuid.UUID, error) {
	if sh.single() {
		return sh.only, nil
	}
	if sh.transform == transformIdentity {
		raw, err := sh.raw(v)
		return shardID("identity-" + string(raw)), err
	}
	return sh.buckets[bucketOf(sh.hash(v), len(sh.buckets))], nil
}

// shardValuesMax is how many values of the sharding column are looked at to leave out shards.
const shardValuesMax = 64

// shardsOf returns the ordinals of the shards that can have rows for which a filter over physical columns is true; all
// is true if that is not known.
func (s *shardSet) shardsOf(filter predicate.Expr, keyCols []int) (ordinals []int, all bool, err error) {
	sh := s.sharder
	if filter == nil || sh.single() || !rowkey.Encodable(sh.typ) {
		return nil, true, nil
	}
	column := sh.column
	if len(keyCols) > 0 {
		column = keyCols[sh.column]
	}
	cells, _ := predicate.Bounds(filter, column)
	values, ok := cells.Points()
	if !ok || cells.Null || len(values) > shardValuesMax {
		return nil, true, nil
	}
	enc, err := rowkey.NewEncoder([]arrow.DataType{sh.typ})
	if err != nil {
		return nil, false, err
	}
	ordinals = slices.Clone(s.manual)
	for _, v := range values {
		k, err := enc.Tuple(v)
		if err != nil {
			return nil, true, nil // not of the column's type: the scan says so itself
		}
		cell, err := enc.Cell(k, 0)
		if err != nil {
			return nil, false, err
		}
		id, err := sh.shard(cell)
		if err != nil {
			return nil, false, err
		}
		if o, there := s.byID[id]; there {
			ordinals = append(ordinals, o)
		}
	}
	return ordinals, false, nil
}

// hash is the bucket hash of a value; NULL hashes to 0. Spec: memwal.md §6.
func (sh *sharder) hash(v any) uint32 {
	wide := false
	switch sh.typ.ID() {
	case arrow.INT64, arrow.UINT64, arrow.TIME64, arrow.TIMESTAMP:
		wide = true
	}
	switch v := v.(type) {
	case bool:
		if v {
			return hash32(1)
		}
		return hash32(0)
	case int64:
		if wide {
			return hash64(v)
		}
		return hash32(int32(v))
	case uint64:
		if wide {
			return hash64(int64(v))
		}
		return hash32(int32(v))
	case []byte:
		return hashBytes(v)
	case float32:
		return hash32(int32(floatBits32(v)))
	case float64:
		return hash64(int64(floatBits64(v)))
	}
	return 0
}

// floatBits32 is the bits that stand for a number: one zero, one NaN.
func floatBits32(v float32) uint32 {
	switch {
	case v == 0:
		return 0
	case v != v:
		return 0x7fc00000
	}
	return math.Float32bits(v)
}

// floatBits64 is floatBits32 for doubles.
func floatBits64(v float64) uint64 {
	switch {
	case v == 0:
		return 0
	case v != v:
		return 0x7ff8000000000000
	}
	return math.Float64bits(v)
}

// raw is the scalar as shard ids and shard_field_entries hold it: little-endian numbers of the column's width, raw
// text, one byte for a boolean.
func (sh *sharder) raw(v any) ([]byte, error) {
	n := uint64(0)
	switch v := v.(type) {
	case []byte:
		return v, nil
	case bool:
		if v {
			return []byte{1}, nil
		}
		return []byte{0}, nil
	case int64:
		n = uint64(v)
	case uint64:
		n = v
	default:
		return nil, fmt.Errorf("NULL in an identity sharding column: %w", errs.ErrInvalid)
	}
	width := 8
	if f, ok := sh.typ.(arrow.FixedWidthDataType); ok {
		width = f.BitWidth() / 8
	}
	return binary.LittleEndian.AppendUint64(nil, n)[:width], nil
}

// entry is the shard_field_entries value of the shard of rows with that value; nil without sharding. Written for
// others, never relied on. Spec: memwal.md §5.3.
func (sh *sharder) entry(v any) ([]byte, error) {
	switch {
	case sh.single():
		return nil, nil
	case sh.transform == transformIdentity:
		return sh.raw(v)
	}
	return binary.LittleEndian.AppendUint32(nil, uint32(bucketOf(sh.hash(v), len(sh.buckets)))), nil
}
