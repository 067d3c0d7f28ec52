package sqlbackend

import (
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/lsm"
)

// shardComment is how a table comment asks for one shard for each value of a key column, since the grammar knows no
// other way: shard=identity(column).
const shardComment = "shard=identity("

const partitionsMax = 1024

// sharding is what a CREATE TABLE says about shards: PARTITION BY KEY (column) PARTITIONS n spreads rows over n shards
// by a hash of a primary key column. Other kinds of partitions say where rows lie and not what they are, so they are
// left out with a warning.
func sharding(ctx *sql.Context, stmt sqlparser.Statement, comment string, l layout, columns sql.Schema) (lsm.Sharding, error) {
	if at := strings.Index(strings.ToLower(comment), shardComment); at >= 0 {
		name, _, closed := strings.Cut(comment[at+len(shardComment):], ")")
		if !closed {
			return lsm.Sharding{}, newError(1105, "table comment: %s…) is not closed", shardComment)
		}
		column, err := shardColumn(strings.TrimSpace(name), l, columns)
		return lsm.Sharding{Column: column, Identity: true}, err
	}
	ddl, ok := stmt.(*sqlparser.DDL)
	if !ok || ddl.TableSpec == nil || ddl.TableSpec.PartitionOpt == nil {
		return lsm.Sharding{}, nil
	}
	p := ddl.TableSpec.PartitionOpt
	if !strings.EqualFold(p.PartitionType, "key") || p.SubPartition != nil {
		ctx.Warn(1105, "PARTITION BY %s is left out: tables are spread by PARTITION BY KEY only", strings.ToUpper(p.PartitionType))
		return lsm.Sharding{}, nil
	}
	n := 1
	if p.Partitions != nil {
		var err error
		if n, err = strconv.Atoi(string(p.Partitions.Val)); err != nil || n > partitionsMax {
			return lsm.Sharding{}, newError(1499, "Too many partitions (including subpartitions) were defined")
		}
		if n == 0 {
			return lsm.Sharding{}, newError(1504, "Number of partitions = 0 is not an allowed value")
		}
	}
	name := ""
	switch len(p.ColList) {
	case 0: // the primary key
		if len(l.ordinals) != 1 {
			return lsm.Sharding{}, notSupported("PARTITION BY KEY over several columns")
		}
		name = columns[l.ordinals[0]].Name
	case 1:
		name = p.ColList[0].String()
	default:
		return lsm.Sharding{}, notSupported("PARTITION BY KEY over several columns")
	}
	column, err := shardColumn(name, l, columns)
	return lsm.Sharding{Column: column, Buckets: n}, err
}

// shardColumn finds the physical name of a column that rows can be spread by: one of the primary key that is stored as
// it is, so that equal values have equal bytes.
func shardColumn(name string, l layout, columns sql.Schema) (string, error) {
	at := columns.IndexOfColName(name)
	if at < 0 {
		return "", newError(1488, "Field in list of fields for partition function not found in table")
	}
	inKey := false
	for _, i := range l.ordinals {
		inKey = inKey || i == at
	}
	switch {
	case !inKey:
		return "", newError(1503, "A PRIMARY KEY must include all columns in the table's partitioning function (prefixed columns are not considered).")
	case l.key.hidden >= 0 || !lsm.ShardableBy(l.schema.Field(at).Type):
		return "", newError(1659, "Field '%s' is of a not allowed type for this type of partitioning", name)
	}
	return l.schema.Field(at).Name, nil
}
