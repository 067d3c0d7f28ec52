package file

import (
	"context"
	"fmt"

	"lancesql/internal/errs"
	"lancesql/lance/encoding"
)

// readBlobs appends rows [from, to) of the file of a legacy blob column: the pages hold position and size of each value.
// Spec: file format, "Blob layout".
func (c *cursor) readBlobs(ctx context.Context, dst *encoding.Vector, from, to uint64) error {
	if c.blobs == nil {
		c.blobs = &cursor{r: c.r, col: c.col, typ: encoding.BlobType(), items: 1, window: c.window, chunk: -1}
	}
	c.blobs.end, c.blobs.want = c.end, c.want
	where := encoding.NewVector(c.blobs.typ, nil)
	defer where.Release()
	if err := c.blobs.read(ctx, where, from, to); err != nil {
		return err
	}
	if where.Len() != int(to-from) {
		return errs.Corrupt("page", -1, "%d of %d blobs", where.Len(), to-from)
	}
	var buf []byte
	for i := range where.Len() {
		position, size := where.Blob(i)
		if size == 0 && position != 0 {
			if c.r.version != V20() && position&0xffff != 0 { // a repetition level
				return fmt.Errorf("blob in a list: %w", errs.ErrUnsupported)
			}
			if err := dst.AppendNulls(1); err != nil {
				return err
			}
			continue
		}
		if !within(position, size, c.r.size) || size > maxBufferBytes {
			return errs.Corrupt("page", -1, "blob of %d bytes at %d in a file of %d", size, position, c.r.size)
		}
		if uint64(cap(buf)) < size {
			buf = make([]byte, size)
		}
		buf = buf[:size]
		if err := c.r.readAt(ctx, buf, position); err != nil {
			return err
		}
		if err := dst.AppendValue(buf); err != nil {
			return err
		}
	}
	return nil
}
