package table

import (
	"context"
	"fmt"

	"lancesql/internal/errs"
	"lancesql/lance/file"
)

// AddBuffer writes a global buffer into the data file and returns its number; b is borrowed. With SetMetadata it lets
// indexes leave write seeds for the rows that the file holds.
// Spec: zone map index, write seeds.
func (w *FragmentWriter) AddBuffer(b []byte) (number uint32, err error) {
	if w.done {
		return 0, fmt.Errorf("write fragment: %w", errs.ErrClosed)
	}
	return w.file.AddBuffer(b)
}

// SetMetadata sets an entry of the schema's metadata in the data file.
func (w *FragmentWriter) SetMetadata(key, value string) { w.file.SetMetadata(key, value) }

// FieldFile returns the reader of the data file of fragment f that holds the top-level field of that id: the place of
// its write seeds. The reader is shared. errs.ErrNotFound if no file holds the field: its cells are NULL.
func (d *Dataset) FieldFile(ctx context.Context, f *Fragment, field int32) (*file.Reader, error) {
	top := d.state.schema.FieldByID(field)
	if top == nil {
		return nil, fmt.Errorf("field %d: %w", field, errs.ErrNotFound)
	}
	ids := []int32{field}
	for _, leaf := range d.state.schema.Leaves(top) {
		ids = append(ids, leaf.ID)
	}
	for _, id := range ids {
		if i, _, ok := f.column(id); ok {
			return d.reader(ctx, f, &f.Files[i])
		}
	}
	return nil, fmt.Errorf("field %d in fragment %d: %w", field, f.ID, errs.ErrNotFound)
}
