package table

import (
	"context"
	"fmt"
	"math/bits"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
	"lancesql/lance/schema"
)

// The kinds of blob descriptors. Spec: table format, "Blob v2 columns".
const (
	blobInline    = 0 // in the data file
	blobPacked    = 1 // in a side file with others
	blobDedicated = 2 // a side file of its own
)

const blobSuffix = ".blob"

// blobBytesMax bounds one blob.
const blobBytesMax = 1<<31 - 1

// Blobs reads the values of a blob v2 column at the given addresses, of which scans and takes give the descriptors. The
// slices are in the order of the addresses; nil is null. errs.ErrInvalid for an address of no row or of a deleted one, or
// if the column is no blob v2 column; errs.ErrUnsupported for blobs at URIs and managed ones.
func (d *Dataset) Blobs(ctx context.Context, column string, addrs []rowaddr.Addr) ([][]byte, error) {
	f := d.state.schema.FieldByName(column)
	if f == nil || !f.BlobV2() {
		return nil, fmt.Errorf("column %q of %s holds no blobs: %w", column, d.root, errs.ErrInvalid)
	}
	rec, err := d.TakeAddresses(ctx, []string{column}, addrs)
	if err != nil {
		return nil, fmt.Errorf("blobs: %w", err)
	}
	defer rec.Release()
	descriptors, ok := rec.Column(0).(*array.Struct)
	if !ok || descriptors.NumField() != schema.BlobDescriptor().NumFields() {
		return nil, fmt.Errorf("blob descriptors of type %s: %w", rec.Column(0).DataType(), errs.ErrUnsupported)
	}
	out := make([][]byte, len(addrs))
	for i, a := range addrs {
		if descriptors.IsNull(i) {
			continue
		}
		if out[i], err = d.blob(ctx, f.ID, a, descriptors, i); err != nil {
			return nil, fmt.Errorf("blob of row %d of fragment %d: %w", a.Offset(), a.Fragment(), err)
		}
	}
	return out, nil
}

// blob reads the value that row i of the descriptors leads to; field names the column, a the row's place.
func (d *Dataset) blob(ctx context.Context, field int32, a rowaddr.Addr, descriptors *array.Struct, i int) ([]byte, error) {
	kind := descriptors.Field(0).(*array.Uint8).Value(i)
	position, size := descriptors.Field(1).(*array.Uint64).Value(i), descriptors.Field(2).(*array.Uint64).Value(i)
	f := d.state.fragment(uint64(a.Fragment()))
	at, _, ok := f.column(field)
	if !ok {
		return nil, fmt.Errorf("field %d has no file: %w", field, errs.ErrInvalid)
	}
	df := &f.Files[at]
	name := df.Path
	switch kind {
	case blobInline:
	case blobPacked, blobDedicated:
		name = blobName(df.Path, descriptors.Field(3).(*array.Uint32).Value(i))
	default:
		return nil, fmt.Errorf("blob of kind %d at %q: %w", kind, descriptors.Field(4).(*array.String).Value(i), errs.ErrUnsupported)
	}
	place, err := d.place(df.BaseID, dataDir, name)
	if err != nil {
		return nil, err
	}
	info, err := place.st.Stat(ctx, place.name)
	if err != nil {
		return nil, err
	}
	if total := uint64(info.Size); size > total || position > total-size {
		return nil, errs.Corrupt(place.name, -1, "blob of %d bytes at %d in %d", size, position, total)
	}
	if size > blobBytesMax {
		return nil, fmt.Errorf("blob of %d bytes: %w", size, errs.ErrLimit)
	}
	b := make([]byte, size)
	if size > 0 {
		err = place.st.ReadAt(ctx, place.name, b, int64(position))
	}
	return b, err
}

// blobFolder is the name of the folder with the side files of a data file, below data/.
func blobFolder(dataFile string) string { return strings.TrimSuffix(dataFile, dataSuffix) }

// blobName is the name of side file id of a data file, below data/: the bits of the id from the lowest on.
func blobName(dataFile string, id uint32) string {
	return fmt.Sprintf("%s/%032b%s", blobFolder(dataFile), bits.Reverse32(id), blobSuffix)
}
