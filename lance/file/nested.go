package file

import (
	"context"
	"fmt"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/errs"
	"lancesql/lance/encoding"
	"lancesql/lance/schema"
)

// nested reads one top-level field of a nested type. In files 2.1 and later only leaves have columns; each leaf's
// levels say what the structs, lists and maps above it look like.
type nested struct {
	root   *nestedNode
	leaves []*cursor // with their leaf set, in column order

	old *oldTree // version 2.0: instead of root; then leaves is one cursor that stands for the field
}

// nestedNode is one field of the tree.
type nestedNode struct {
	name     string
	typ      arrow.DataType
	leaf     *encoding.Leaf // the first one below; its levels stand for this node
	layer    int            // of this node among the leaf's layers
	every    int            // entries of the leaf per value of this node: the sizes of the fixed-size lists between them
	children []*nestedNode
}

// place is where a node stands in the tree.
type place struct {
	layers []bool // above it from the outermost on; true = list
	items  uint64 // values per row of the file: the sizes of the fixed-size lists above it
	lists  bool   // a list is above it
}

// rowItemsMax bounds the values of one row in fixed-size lists of structs, and those of one batch.
const rowItemsMax = 1 << 24

// projectNested resolves a nested field to columns.
func (r *Reader) projectNested(ctx context.Context, f *schema.Field, dt arrow.DataType, cols map[int32]int32, window int) (*nested, error) {
	n := &nested{}
	var err error
	if r.version == V20() {
		if n.old, err = r.oldTree(ctx, f, dt, cols); err != nil {
			return nil, err
		}
		count := n.old.leafCount()
		n.old.walk(func(t *oldTree) {
			if t.cur != nil {
				t.cur.window = max(minWindowBytes, window/count)
			}
		})
		n.leaves = []*cursor{{r: r, tree: n.old, items: 1, col: &column{rows: r.rows}}}
		return n, nil
	}
	if n.root, err = r.nestedNode(ctx, n, f, dt, cols, place{items: 1}); err != nil {
		return nil, err
	}
	for _, c := range n.leaves {
		c.window = max(minWindowBytes, window/len(n.leaves))
	}
	return n, nil
}

// nestedNode builds the node of f at a place.
func (r *Reader) nestedNode(ctx context.Context, n *nested, f *schema.Field, dt arrow.DataType, cols map[int32]int32, at place) (*nestedNode, error) {
	node := &nestedNode{name: f.Name, typ: dt, every: 1}
	below := place{layers: append(append([]bool(nil), at.layers...), false), items: at.items, lists: at.lists}
	var types []arrow.DataType
	switch t := dt.(type) {
	case *arrow.StructType:
		if f.OwnsColumn() {
			break
		}
		for _, c := range t.Fields() {
			types = append(types, c.Type)
		}
	case *arrow.FixedSizeListType:
		if f.OwnsColumn() {
			break
		}
		if at.lists {
			return nil, fmt.Errorf("fixed-size list of structs in a list: %w", errs.ErrUnsupported)
		}
		types = []arrow.DataType{t.Elem()}
		if below.items *= uint64(t.Len()); below.items > rowItemsMax {
			return nil, fmt.Errorf("fixed-size lists of %d structs in a row: %w", below.items, errs.ErrLimit)
		}
	case *arrow.MapType, *arrow.ListType, *arrow.LargeListType:
		types = []arrow.DataType{t.(arrow.ListLikeType).Elem()}
		below.lists, below.layers[len(at.layers)] = true, true
	}
	if types == nil {
		if !f.OwnsColumn() {
			return nil, fmt.Errorf("nested type %s: %w", dt, errs.ErrUnsupported)
		}
		cur, err := r.itemCursor(ctx, f, dt, cols, at.items)
		if err != nil {
			return nil, err
		}
		shape := make(encoding.Shape, len(below.layers))
		for i, list := range below.layers {
			shape[len(below.layers)-1-i] = list
		}
		cur.leaf = encoding.NewLeaf(shape, cur.typ, r.mem)
		node.leaf = cur.leaf
		n.leaves = append(n.leaves, cur)
		return node, nil
	}
	if len(types) != len(f.Children) {
		return nil, fmt.Errorf("field %q of type %s with %d children: %w", f.Name, dt, len(f.Children), errs.ErrInvalid)
	}
	first := len(n.leaves)
	for i, c := range f.Children {
		child, err := r.nestedNode(ctx, n, c, types[i], cols, below)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", c.Name, err)
		}
		node.children = append(node.children, child)
	}
	node.leaf = n.leaves[first].leaf
	node.every = int(n.leaves[first].items / at.items)
	node.layer = node.leaf.Layers() - 1 - len(at.layers)
	return node, nil
}

// leafCursor opens the column of a field that owns one.
func (r *Reader) leafCursor(ctx context.Context, f *schema.Field, dt arrow.DataType, cols map[int32]int32) (*cursor, error) {
	return r.itemCursor(ctx, f, dt, cols, 1)
}

// itemCursor opens a column that has a number of values for each row of the file.
func (r *Reader) itemCursor(ctx context.Context, f *schema.Field, dt arrow.DataType, cols map[int32]int32, items uint64) (*cursor, error) {
	typ, err := encoding.TypeOf(dt)
	if err != nil {
		return nil, err
	}
	c, err := r.cursorOf(ctx, f, typ, cols)
	if err == nil && (c.col.rows/items != r.rows || c.col.rows%items != 0) {
		return nil, errs.Corrupt(r.src.Name(), int64(r.extents[c.col.index].pos), "the pages of column %d hold %d rows, the file %d", c.col.index, c.col.rows, r.rows)
	}
	if err == nil {
		c.items = items
	}
	return c, err
}

// cursorOf opens the column of a field, whose rows need not be those of the file.
func (r *Reader) cursorOf(ctx context.Context, f *schema.Field, typ encoding.Type, cols map[int32]int32) (*cursor, error) {
	index, ok := cols[f.ID]
	if !ok {
		return nil, fmt.Errorf("field id %d has no column in %s: %w", f.ID, r.src.Name(), errs.ErrInvalid)
	}
	col, err := r.column(ctx, index)
	if err != nil {
		return nil, err
	}
	return &cursor{r: r, col: col, typ: typ, items: 1, chunk: -1}, nil
}

// array reads one batch: read appends its rows to one column.
func (n *nested) array(rows int, read func(f *fieldReader, dst *encoding.Vector) error) (arrow.Array, error) {
	if n.old != nil {
		return n.oldArray(rows, read)
	}
	defer func() {
		for _, c := range n.leaves {
			c.leaf.Reset()
		}
	}()
	for _, c := range n.leaves {
		if uint64(rows)*c.items > rowItemsMax && c.items > 1 {
			return nil, fmt.Errorf("%d rows of %d structs in one batch: %w", rows, c.items, errs.ErrLimit)
		}
		c.leaf.Reset()
		if err := read(&fieldReader{cur: c}, c.leaf.Values); err != nil {
			return nil, err
		}
		if uint64(c.leaf.Rows()) != uint64(rows)*c.items {
			return nil, errs.Corrupt(c.r.src.Name(), -1, "column %d gave %d of %d rows", c.col.index, c.leaf.Rows(), rows)
		}
	}
	data, err := n.root.data()
	if err != nil {
		c := n.leaves[0]
		return nil, c.r.pageError(c.col, c.p, err)
	}
	defer data.Release()
	if data.Len() != rows {
		return nil, errs.Corrupt(n.leaves[0].r.src.Name(), -1, "field %q gave %d of %d rows", n.root.name, data.Len(), rows)
	}
	return array.MakeFromData(data), nil
}

func (n *nested) oldArray(rows int, read func(f *fieldReader, dst *encoding.Vector) error) (arrow.Array, error) {
	defer n.old.reset()
	n.old.reset()
	c := n.leaves[0]
	if err := read(&fieldReader{cur: c}, nil); err != nil {
		return nil, err
	}
	data, err := n.old.data()
	if err != nil {
		return nil, c.r.pageError(c.col, &page{}, err)
	}
	defer data.Release()
	if data.Len() != rows {
		return nil, errs.Corrupt(c.r.src.Name(), -1, "nested field gave %d of %d rows", data.Len(), rows)
	}
	return array.MakeFromData(data), nil
}

// data builds the Arrow data of a node from the leaves below it.
func (n *nestedNode) data() (arrow.ArrayData, error) {
	if n.children == nil {
		return n.leaf.ValueData(n.typ)
	}
	children := make([]arrow.ArrayData, 0, len(n.children))
	defer func() {
		for _, c := range children {
			c.Release()
		}
	}()
	for _, c := range n.children {
		d, err := c.data()
		if err != nil {
			return nil, err
		}
		children = append(children, d)
	}
	switch n.typ.ID() {
	case arrow.STRUCT:
		return n.leaf.StructData(n.typ, n.layer, n.every, children)
	case arrow.FIXED_SIZE_LIST:
		return n.leaf.FixedListData(n.typ.(*arrow.FixedSizeListType), n.layer, n.every, children[0])
	}
	if n.typ.ID() == arrow.MAP {
		entries := children[0]
		if entries.NullN() > 0 || entries.Children()[0].NullN() > 0 {
			return nil, errs.Corrupt("page", -1, "map %q with a null key", n.name)
		}
	}
	return n.leaf.ListData(n.typ, n.layer, children[0])
}

// readLeaf appends rows [from, to) of the current page to the cursor's leaf.
func (c *cursor) readLeaf(ctx context.Context, from, to uint64) error {
	switch {
	case c.pl.mini != nil && c.pl.lists != nil:
		return c.readLists(ctx, from, to)
	case c.pl.mini != nil:
		return c.readMini(ctx, c.leaf.Values, from, to)
	case c.pl.full != nil:
		return c.readFullZip(ctx, c.leaf.Values, from, to)
	case c.pl.constant != nil:
		return c.pl.constant.AppendLeaf(c.leaf, from, to)
	}
	return fmt.Errorf("nested column in a page of version 2.0: %w", errs.ErrUnsupported)
}

// readLists appends rows of a mini-block page with lists. A row may go on over any number of chunks.
func (c *cursor) readLists(ctx context.Context, from, to uint64) error {
	goOn := false
	for i := 0; from < to || goOn; {
		if goOn {
			i++
		} else {
			i = sort.Search(len(c.pl.lists), func(i int) bool { return from < c.pl.lists[i].First+uint64(c.pl.lists[i].Starts) })
		}
		if i != c.chunk {
			if err := c.loadChunk(ctx, i); err != nil {
				return err
			}
		}
		ch := c.pl.lists[i]
		last := ch.First + uint64(ch.Starts)
		upTo := min(to, last)
		if err := c.pl.mini.AppendLists(c.leaf, &c.state, int(from-ch.First), int(upTo-from), goOn); err != nil {
			return err
		}
		from = upTo
		goOn = from == last && ch.Partial
	}
	return nil
}

// listsAhead is chunksAhead for pages with lists: chunks are counted in row starts, and rows may go on in the next.
func (c *cursor) listsAhead(i int) uint64 {
	chunks, lists := c.pl.chunks, c.pl.lists
	start := uint64(chunks[i].Offset)
	end := start + uint64(chunks[i].Size)
	done := 0 // wanted rows that start before chunk k
	for k := i; k+1 < len(chunks); {
		k++
		next := uint64(chunks[k].Offset) + uint64(chunks[k].Size)
		first := c.p.first + lists[k].First
		if c.want == nil {
			if first >= c.end && !(lists[k-1].Partial && first == c.end) {
				break
			}
		} else {
			for done < len(c.want) && c.want[done] < first {
				done++
			}
			goesOn := lists[k-1].Partial && done > 0 && c.want[done-1] == first-1
			starts := done < len(c.want) && c.want[done] < first+uint64(lists[k].Starts)
			if !starts && !goesOn {
				if done == len(c.want) || uint64(chunks[k].Offset) > end+gapBytes {
					break
				}
				continue
			}
		}
		if uint64(chunks[k].Offset) > end+gapBytes || next-start > uint64(c.window) {
			break
		}
		end = next
	}
	return end
}
