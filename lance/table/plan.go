package table

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/lance/schema"
)

// plansMax bounds the plans that a version keeps for point reads.
const plansMax = 4096

// planCache keeps the plans of a version's fragments. The zero value is empty; safe for concurrent use.
type planCache struct {
	mu    sync.Mutex
	plans map[planKey]*columnPlan // under mu
}

type planKey struct {
	f   *Fragment
	ids string // of the fields
}

// planOf is plan for those who ask for the same fields again and again.
func (d *Dataset) planOf(f *Fragment, fieldIDs []int32) (*columnPlan, error) {
	var buf [64]byte
	text := buf[:0]
	for _, id := range fieldIDs {
		text = binary.LittleEndian.AppendUint32(text, uint32(id))
	}
	c := d.state.plans
	c.mu.Lock()
	p := c.plans[planKey{f, string(text)}]
	c.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := d.plan(f, fieldIDs)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.plans == nil || len(c.plans) >= plansMax {
		c.plans = make(map[planKey]*columnPlan)
	}
	c.plans[planKey{f, string(text)}] = p
	return p, nil
}

// columnPlan says where the wanted top-level fields of a fragment lie. Read-only once made.
type columnPlan struct {
	schema *arrow.Schema // of the output
	parts  []filePart
	nulls  []int // output positions of fields without data: null everywhere
}

// filePart is what one data file contributes.
type filePart struct {
	file   int // index into Fragment.Files
	fields []*schema.Field
	out    []int // output position of each field
	cols   map[int32]int32
}

// topFields resolves ids of top-level fields; errs.ErrInvalid for any other id.
func (d *Dataset) topFields(ids []int32) ([]*schema.Field, error) {
	fields := make([]*schema.Field, len(ids))
	for i, id := range ids {
		for _, top := range d.state.schema.Fields {
			if top.ID == id {
				fields[i] = top
			}
		}
		if fields[i] == nil {
			return nil, fmt.Errorf("field %d is no top-level field of version %d: %w", id, d.Version(), errs.ErrInvalid)
		}
	}
	return fields, nil
}

// plan resolves field ids against the fragment's files: first match wins, negative ids are skipped, and a field that no
// file has reads as null. Spec: table schema, "How a schema is applied to files".
func (d *Dataset) plan(f *Fragment, fieldIDs []int32) (*columnPlan, error) {
	fields, err := d.topFields(fieldIDs)
	if err != nil {
		return nil, err
	}
	out, err := schema.ArrowSchema(fields, d.state.schema.Metadata)
	if err != nil {
		return nil, err
	}
	p := &columnPlan{schema: out}
	byFile := make(map[int]int) // file -> index into p.parts
	for i, top := range fields {
		at, cols, err := d.locate(f, top)
		if err != nil {
			return nil, err
		}
		if at < 0 {
			p.nulls = append(p.nulls, i)
			continue
		}
		k, ok := byFile[at]
		if !ok {
			k = len(p.parts)
			byFile[at] = k
			p.parts = append(p.parts, filePart{file: at, cols: make(map[int32]int32)})
		}
		part := &p.parts[k]
		part.fields, part.out = append(part.fields, top), append(part.out, i)
		for id, c := range cols {
			part.cols[id] = c
		}
	}
	return p, nil
}

// locate finds the one file with all leaves of a top-level field; -1 if no file has any of them.
func (d *Dataset) locate(f *Fragment, top *schema.Field) (int, map[int32]int32, error) {
	at, missing := -1, false
	cols := make(map[int32]int32)
	for _, leaf := range d.state.schema.Leaves(top) {
		i, c, ok := f.column(leaf.ID)
		if !ok {
			missing = true
			if !leaf.Nullable && !top.Nullable {
				return 0, nil, errs.Corrupt(d.state.object, -1, "fragment %d has no data for field %q (%d), which is not nullable", f.ID, leaf.Name, leaf.ID)
			}
			continue
		}
		if at >= 0 && i != at {
			return 0, nil, fmt.Errorf("field %q is spread over data files: %w", top.Name, errs.ErrUnsupported)
		}
		at, cols[leaf.ID] = i, c
	}
	if at >= 0 && missing {
		return 0, nil, fmt.Errorf("field %q lacks members in fragment %d: %w", top.Name, f.ID, errs.ErrUnsupported)
	}
	if at < 0 {
		return -1, nil, nil
	}
	// Version 2.0 files have columns for struct and list parents as well.
	top.Walk(func(n *schema.Field) {
		for k, id := range f.Files[at].Fields {
			if id == n.ID && f.Files[at].Columns[k] >= 0 {
				cols[id] = f.Files[at].Columns[k]
			}
		}
	})
	return at, cols, nil
}
