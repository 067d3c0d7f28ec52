package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"lancesql/indexes"
	"lancesql/lsm"
)

// kindOption is how the comment of an index asks for another kind than BTREE, since the grammar knows no other way:
// type=bitmap or type=bloomfilter. Such an index narrows scans of the base table by itself; no plan names it.
const kindOption = "type"

const (
	kindBitmap = "bitmap"
	kindBloom  = "bloomfilter"
)

// scanIndexKind reads the kind an index definition asks for; "" is BTREE.
func scanIndexKind(def *sql.IndexDef) (string, error) {
	kind, err := wordOption(def.Comment, kindOption, "btree", kindBitmap, kindBloom)
	switch {
	case err != nil:
		return "", newError(1105, "comment of index %s: type needs one of btree, bitmap, bloomfilter", def.Name)
	case kind == "btree":
		return "", nil
	case def.IsUnique():
		return "", notSupported("UNIQUE indexes of another type than BTREE")
	case len(def.Columns) != 1 || def.Columns[0].Length > 0 || def.Columns[0].Expression != nil || sql.IsHiddenSystemColumnForIndex(def.Columns[0].Name, def.Name):
		return "", notSupported(strings.ToUpper(kind) + " indexes over anything but one whole column")
	}
	return kind, nil
}

func scanKindOf(kind string) indexes.Kind {
	if kind == kindBitmap {
		return indexes.Bitmap
	}
	return indexes.Bloom
}

// checkScanIndex refuses an index that could not hold its column, or that no filter could use.
func checkScanIndex(x shapeIndex, columns sql.Schema, codecs []codec, position map[string]int) error {
	i, ok := position[strings.ToLower(x.Parts[0].Column)]
	if !ok {
		return sql.ErrKeyColumnDoesNotExist.New(x.Parts[0].Column)
	}
	if !lsm.ScanIndexable(scanKindOf(x.Kind), codecs[i].arrow) || !filterableType(columns[i].Type) {
		return notSupported(strings.ToUpper(x.Kind) + " indexes over columns such as " + columns[i].Name)
	}
	return nil
}

// addScanIndex adds an index that narrows scans. The table stays as it is; the index is built when the statement is
// committed.
func (t *Table) addScanIndex(ctx *sql.Context, def sql.IndexDef) error {
	err := t.changeShape(ctx, func(s *shape) error { return s.addIndex(ctx, &def) })
	if err == nil {
		t.buildScanIndexes(ctx)
	}
	return err
}

// buildScanIndexes builds what scan indexes lack over the base. What it cannot build now the next merges do.
func (t *Table) buildScanIndexes(ctx *sql.Context) {
	id := t.info.entry.ID
	t.provider.afterAlter(ctx, func(ctx *sql.Context) {
		if err := t.provider.engine.CatchUpIndexes(ctx, id); err != nil {
			ctx.Warn(1105, "the index is not built yet: %v", err)
		}
	})
}

// forgetScanIndex takes the files of an index out of the base.
func (t *Table) forgetScanIndex(ctx *sql.Context, name string) {
	id := t.info.entry.ID
	t.provider.afterAlter(ctx, func(ctx *sql.Context) {
		if err := t.provider.engine.DropScanIndex(ctx, id, name); err != nil {
			ctx.Warn(1105, "the files of index %s stay: %v", name, err)
		}
	})
}
