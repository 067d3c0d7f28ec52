package file

import (
	"context"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/encoding"
	"lancesql/lance/pb"
	"lancesql/lance/schema"
)

// oldItemsMax bounds the list items of one batch of version 2.0, where a few bytes can claim any number of them.
const oldItemsMax = 1 << 24

// oldTree reads one field of a nested type in version 2.0: a list's column says where the items of its rows end, the
// columns below count items.
type oldTree struct {
	typ      arrow.DataType
	cur      *cursor          // of a list: its column; of a leaf: its column
	vec      *encoding.Vector // of a leaf: what was read
	children []*oldTree
	exact    bool // only the asked rows are wanted, nothing ahead

	// lists
	pages []*encoding.OldList
	bases []uint64 // items before each page
	ends  []int64  // ends of the rows read so far, in items read so far
	null  []bool
	nulls int

	rows int // structs
}

// oldTree builds the tree of a field.
func (r *Reader) oldTree(ctx context.Context, f *schema.Field, dt arrow.DataType, cols map[int32]int32) (*oldTree, error) {
	t := &oldTree{typ: dt}
	if f.OwnsColumn() {
		typ, err := encoding.TypeOf(dt)
		if err != nil {
			return nil, err
		}
		t.vec = encoding.NewVector(typ, r.mem)
		t.cur, err = r.cursorOf(ctx, f, typ, cols)
		return t, err
	}
	var types []arrow.DataType
	switch dt := dt.(type) {
	case *arrow.StructType:
		for _, c := range dt.Fields() {
			types = append(types, c.Type)
		}
	case *arrow.ListType:
		types = []arrow.DataType{dt.Elem()}
	case *arrow.LargeListType:
		types = []arrow.DataType{dt.Elem()}
	default:
		return nil, fmt.Errorf("nested type %s in version 2.0: %w", dt, errs.ErrUnsupported)
	}
	if len(types) != len(f.Children) {
		return nil, fmt.Errorf("type %s with %d children: %w", dt, len(f.Children), errs.ErrInvalid)
	}
	if dt.ID() != arrow.STRUCT {
		var err error
		if t.cur, err = r.cursorOf(ctx, f, encoding.Type{}, cols); err != nil {
			return nil, err
		}
		if err := t.loadPages(); err != nil {
			return nil, err
		}
	}
	for i, c := range f.Children {
		child, err := r.oldTree(ctx, c, types[i], cols)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", c.Name, err)
		}
		t.children = append(t.children, child)
	}
	return t, nil
}

// loadPages compiles the pages of a list's column, all of them: the items of a page begin behind those of the others.
func (t *oldTree) loadPages() error {
	base := uint64(0)
	for _, p := range t.cur.col.pages {
		value, err := p.message(arrayEncodingURL)
		if err != nil {
			return t.cur.r.pageError(t.cur.col, p, err)
		}
		var a pb.ArrayEncoding20
		if err := proto.Unmarshal(value, &a); err != nil {
			return t.cur.r.pageError(t.cur.col, p, errs.Corrupt("page", -1, "array encoding: %v", err))
		}
		l, err := encoding.CompileOldList(&a, p.rows)
		if err != nil {
			return t.cur.r.pageError(t.cur.col, p, err)
		}
		t.pages, t.bases = append(t.pages, l), append(t.bases, base)
		if base += l.Items(); base > 1<<60 {
			return t.cur.r.pageError(t.cur.col, p, errs.Corrupt("page", -1, "%d list items", base))
		}
	}
	return nil
}

// leafCount counts the columns below, for sharing the read-ahead.
func (t *oldTree) leafCount() int {
	n := 0
	t.walk(func(t *oldTree) {
		if t.cur != nil {
			n++
		}
	})
	return n
}

func (t *oldTree) walk(visit func(*oldTree)) {
	visit(t)
	for _, c := range t.children {
		c.walk(visit)
	}
}

// reset forgets what was read.
func (t *oldTree) reset() {
	t.walk(func(t *oldTree) {
		t.ends, t.null, t.nulls, t.rows = t.ends[:0], t.null[:0], 0, 0
		if t.vec != nil {
			t.vec.Release()
		}
	})
}

// close frees decoder state.
func (t *oldTree) close() {
	t.walk(func(t *oldTree) {
		if t.cur != nil {
			t.cur.close()
		}
	})
}

// append reads rows [from, to), counted as the field's own values.
func (t *oldTree) append(ctx context.Context, from, to uint64) error {
	switch {
	case from == to:
		return nil
	case t.vec != nil:
		t.cur.end, t.cur.want = t.cur.col.rows, nil
		if t.exact {
			t.cur.want = []uint64{} // nothing ahead
		}
		return t.cur.read(ctx, t.vec, from, to)
	case t.typ.ID() == arrow.STRUCT:
		for _, c := range t.children {
			c.exact = t.exact
			if err := c.append(ctx, from, to); err != nil {
				return err
			}
		}
		t.rows += int(to - from)
		return nil
	}
	for from < to {
		i := t.cur.col.find(from)
		if i == len(t.pages) {
			return errs.Corrupt(t.cur.r.src.Name(), -1, "column %d has no row %d", t.cur.col.index, from)
		}
		p := t.cur.col.pages[i]
		upTo := min(to, p.first+p.rows)
		if err := t.appendPage(ctx, i, from-p.first, upTo-p.first); err != nil {
			return t.cur.r.pageError(t.cur.col, p, err)
		}
		from = upTo
	}
	return nil
}

// appendPage reads rows of one page of a list's column and their items.
func (t *oldTree) appendPage(ctx context.Context, i int, from, to uint64) error {
	src := oldSource{ctx: ctx, r: t.cur.r, p: t.cur.col.pages[i]}
	var st encoding.OldState
	defer st.Close()
	start, ends, null, err := t.pages[i].Ends(from, to, src, &st)
	if err != nil {
		return err
	}
	have := int64(0)
	if len(t.ends) > 0 {
		have = t.ends[len(t.ends)-1]
	}
	last := ends[len(ends)-1]
	if uint64(have)+last-start > oldItemsMax {
		return fmt.Errorf("more than %d list items in one batch: %w", oldItemsMax, errs.ErrLimit)
	}
	for k, end := range ends {
		t.ends = append(t.ends, have+int64(end-start))
		t.null = append(t.null, null[k])
		if null[k] {
			t.nulls++
		}
	}
	child := t.children[0]
	child.exact = t.exact
	return child.append(ctx, t.bases[i]+start, t.bases[i]+last)
}

// data builds the Arrow data of what was read.
func (t *oldTree) data() (arrow.ArrayData, error) {
	if t.vec != nil {
		a, err := t.vec.NewArray(t.typ)
		if err != nil {
			return nil, err
		}
		defer a.Release()
		a.Data().Retain()
		return a.Data(), nil
	}
	var children []arrow.ArrayData
	defer func() {
		for _, c := range children {
			c.Release()
		}
	}()
	for _, c := range t.children {
		d, err := c.data()
		if err != nil {
			return nil, err
		}
		children = append(children, d)
	}
	if t.typ.ID() == arrow.STRUCT {
		for _, c := range children {
			if c.Len() != t.rows {
				return nil, errs.Corrupt("page", -1, "struct member of %d rows for %d", c.Len(), t.rows)
			}
		}
		return array.NewData(t.typ, t.rows, []*memory.Buffer{nil}, children, 0, 0), nil
	}
	return t.listData(children[0])
}

func (t *oldTree) listData(child arrow.ArrayData) (arrow.ArrayData, error) {
	n := len(t.ends)
	if n > 0 && t.ends[n-1] != int64(child.Len()) {
		return nil, errs.Corrupt("page", -1, "%d list items of %d", child.Len(), t.ends[n-1])
	}
	if n > 0 && t.ends[n-1] > math.MaxInt32 && t.typ.ID() == arrow.LIST {
		return nil, fmt.Errorf("%d list items in one batch: %w", t.ends[n-1], errs.ErrLimit)
	}
	offs := memory.NewResizableBuffer(t.cur.r.mem)
	defer offs.Release()
	if t.typ.ID() == arrow.LARGE_LIST {
		offs.Resize(8 * (n + 1))
		out := arrow.Int64Traits.CastFromBytes(offs.Bytes())
		out[0] = 0
		copy(out[1:], t.ends)
	} else {
		offs.Resize(4 * (n + 1))
		out := arrow.Int32Traits.CastFromBytes(offs.Bytes())
		out[0] = 0
		for i, end := range t.ends {
			out[i+1] = int32(end)
		}
	}
	var valid *memory.Buffer
	if t.nulls > 0 {
		valid = memory.NewResizableBuffer(t.cur.r.mem)
		defer valid.Release()
		valid.Resize((n + 7) / 8)
		for i, null := range t.null {
			bitutil.SetBitTo(valid.Bytes(), i, !null)
		}
	}
	return array.NewData(t.typ, n, []*memory.Buffer{valid, offs}, []arrow.ArrayData{child}, t.nulls, 0), nil
}
