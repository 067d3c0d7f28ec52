package file

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/encoding"
	"lancesql/lance/schema"
)

// topField is a field of the schema with the columns it is written to.
type topField struct {
	field   *schema.Field
	typ     arrow.DataType
	columns []*columnWriter
}

// addField adds the columns of a top-level field.
func (w *Writer) addField(f *schema.Field) error {
	dt, err := f.DataType()
	if err != nil {
		return err
	}
	top := topField{field: f, typ: dt}
	if err := w.addColumns(&top, f, dt, nil); err != nil {
		return err
	}
	w.columns = append(w.columns, top.columns...)
	w.tops = append(w.tops, top)
	return nil
}

// addColumns adds the columns of a field below outer, the steps that lead to it.
func (w *Writer) addColumns(top *topField, f *schema.Field, dt arrow.DataType, outer []encoding.Step) error {
	if f.Metadata[schema.KeyBlob] == "true" {
		return fmt.Errorf("blob column: %w", errs.ErrUnsupported)
	}
	step := encoding.Step{Name: f.Name, Nullable: f.Nullable}
	if f.OwnsColumn() {
		typ, err := encoding.TypeOf(dt)
		if err == nil && w.version == V20() && (typ.Key > 0 || len(typ.Fields) > 0) || typ.Kind == encoding.KindPacked && (w.version != V22() || len(outer) > 0) {
			err = fmt.Errorf("type %s in version %s: %w", dt, w.version, errs.ErrUnsupported)
		}
		if err != nil {
			return err
		}
		c := &columnWriter{field: f, typ: typ, hints: hintsOf(f, top.field), binary: dt.ID() == arrow.BINARY || dt.ID() == arrow.LARGE_BINARY}
		if len(outer) == 0 {
			c.vec = encoding.NewVector(typ, nil)
		} else {
			c.path = append(append(c.path, outer...), step)
			shape := make(encoding.Shape, len(c.path))
			for i, s := range c.path {
				shape[len(shape)-1-i] = s.List
			}
			c.leaf = encoding.NewLeaf(shape, typ, nil)
		}
		top.columns = append(top.columns, c)
		return nil
	}
	if w.version == V20() || dt.ID() == arrow.MAP && w.version == V21() {
		return fmt.Errorf("type %s in version %s: %w", dt, w.version, errs.ErrUnsupported)
	}
	var types []arrow.DataType
	switch dt := dt.(type) {
	case *arrow.StructType:
		for _, c := range dt.Fields() {
			types = append(types, c.Type)
		}
	case *arrow.ListType:
		step.List, types = true, []arrow.DataType{dt.Elem()}
	case *arrow.LargeListType:
		step.List, types = true, []arrow.DataType{dt.Elem()}
	case *arrow.MapType:
		step.List, types = true, []arrow.DataType{dt.Elem()}
	}
	if len(types) == 0 || len(types) != len(f.Children) {
		return fmt.Errorf("type %s with %d children: %w", dt, len(f.Children), errs.ErrUnsupported)
	}
	for i, c := range f.Children {
		step.Child = i
		path := append(append([]encoding.Step(nil), outer...), step)
		if err := w.addColumns(top, c, types[i], path); err != nil {
			return fmt.Errorf("field %q: %w", c.Name, err)
		}
	}
	return nil
}

// storable reports whether arrays of type got can be written to a field of type want: the same tree of the same
// physical types.
func storable(want, got arrow.DataType) bool {
	if ext, ok := got.(arrow.ExtensionType); ok {
		got = ext.StorageType()
	}
	var w, g []arrow.DataType
	switch want := want.(type) {
	case *arrow.StructType:
		other, ok := got.(*arrow.StructType)
		if !ok || other.NumFields() != want.NumFields() {
			return false
		}
		for i, f := range want.Fields() {
			if other.Field(i).Name != f.Name {
				return false
			}
			w, g = append(w, f.Type), append(g, other.Field(i).Type)
		}
	case *arrow.ListType, *arrow.LargeListType, *arrow.MapType:
		if got.ID() != want.ID() {
			return false
		}
		w, g = []arrow.DataType{elem(want)}, []arrow.DataType{elem(got)}
	default:
		a, err1 := encoding.TypeOf(want)
		b, err2 := encoding.TypeOf(got)
		return err1 == nil && err2 == nil && sameType(a, b)
	}
	for i := range w {
		if !storable(w[i], g[i]) {
			return false
		}
	}
	return true
}

func elem(dt arrow.DataType) arrow.DataType {
	if l, ok := dt.(arrow.ListLikeType); ok {
		return l.Elem()
	}
	return dt
}

// bytes is the unencoded size of what the column holds.
func (c *columnWriter) bytes() int {
	if c.leaf != nil {
		return c.leaf.Bytes()
	}
	return c.vec.Bytes()
}

func (c *columnWriter) arrayBytes(a arrow.Array, from, to int) int {
	if c.leaf != nil {
		return encoding.NestedBytes(a.Data(), from, to)
	}
	return c.typ.ArrayBytes(a, from, to)
}

func (c *columnWriter) append(a arrow.Array, from, to int) error {
	if c.leaf != nil {
		return c.leaf.Shred(c.path, a, from, to)
	}
	return c.vec.AppendArray(a, from, to)
}

func (c *columnWriter) release() {
	if c.leaf != nil {
		c.leaf.Reset()
		return
	}
	c.vec.Release()
}

func (w *Writer) pageOptions(c *columnWriter) encoding.PageOptions {
	return encoding.PageOptions{Large: w.version == V22(), Binary: c.binary, Hints: c.hints}
}

// flushLeaf writes the buffered rows of a nested column.
func (w *Writer) flushLeaf(c *columnWriter) error {
	if c.leaf.Rows() == 0 {
		return nil
	}
	before := c.bytes()
	only := c.first == 0 && uint64(c.leaf.Rows()) == w.rows && w.finishing
	err := c.leaf.EncodePages(c.path, only, w.maxPage, w.pageOptions(c), func(p encoding.Page, rows int) error {
		message, err := proto.Marshal(p.Layout)
		if err != nil {
			return err
		}
		description, err := directEncoding(layoutURL, message)
		if err != nil {
			return err
		}
		return w.writePage(c, rows, description, p.Buffers)
	})
	if err != nil {
		return w.fail(fmt.Errorf("encode column %q: %w", c.field.Name, err))
	}
	w.buffered -= before
	c.leaf.Reset()
	return nil
}
