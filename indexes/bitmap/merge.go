package bitmap

import (
	"context"
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/indexes/store"
	"lancesql/internal/arrowx"
	"lancesql/lance/rowaddr"
)

// cursorBytes is about how many bytes of bitmaps a cursor holds.
const cursorBytes = 4 << 20

// cursor walks the rows of an index file in order.
type cursor struct {
	object string
	scan   arrowx.BatchReader
	rec    arrow.RecordBatch
	key    func(dst []byte, i int) []byte
	at     int
	next   row // valid until the next step
}

func openCursor(ctx context.Context, dir store.Dir, name string, size uint64) (*cursor, error) {
	r, err := dir.Open(ctx, name, size)
	if err != nil {
		return nil, err
	}
	cols, err := r.Columns(columnKeys, columnBitmaps)
	if err != nil {
		return nil, err
	}
	return newCursor(ctx, r, cols, size)
}

func newCursor(ctx context.Context, r *store.Reader, cols store.Columns, size uint64) (*cursor, error) {
	rows := 256
	if size > 0 && r.Rows() > 0 {
		rows = int(min(1024, max(1, cursorBytes/(size/r.Rows()+1))))
	}
	scan, err := r.Scan(ctx, cols, 0, r.Rows(), rows)
	if err != nil {
		return nil, err
	}
	return &cursor{object: r.Object(), scan: scan}, nil
}

// step goes to the next row; io.EOF at the end.
func (c *cursor) step() error {
	for c.rec == nil || c.at == int(c.rec.NumRows()) {
		if c.rec != nil {
			c.rec.Release()
			c.rec = nil
		}
		rec, err := c.scan.Next()
		if err != nil {
			return err
		}
		c.rec, c.at = rec, 0
		if c.key, err = appender(rec.Column(0)); err != nil {
			return err
		}
	}
	set, err := decodeSet(c.object, c.rec.Column(1).(*array.Binary), c.at)
	if err != nil {
		return err
	}
	c.next = row{isNull: c.rec.Column(0).IsNull(c.at), set: set}
	if !c.next.isNull {
		c.next.key = string(c.key(nil, c.at))
	}
	c.at++
	return nil
}

func (c *cursor) close() {
	if c.rec != nil {
		c.rec.Release()
		c.rec = nil
	}
	_ = c.scan.Close()
}

// mergeRuns writes the runs and what is in memory; rows of one key are joined.
func (b *Builder) mergeRuns(ctx context.Context, w *rowWriter) error {
	if len(b.keys) > 0 || b.nulls != nil {
		if err := b.spill(ctx); err != nil {
			return err
		}
	}
	var open []*cursor
	defer func() {
		for _, c := range open {
			c.close()
		}
	}()
	for _, name := range b.runs {
		info, err := b.options.Scratch.Stat(ctx, b.dir.Object(name))
		if err != nil {
			return err
		}
		c, err := openCursor(ctx, b.dir, name, uint64(info.Size))
		if err != nil {
			return err
		}
		open = append(open, c)
		if err := c.step(); err != nil {
			return err
		}
	}
	left := append([]*cursor(nil), open...)
	for len(left) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		least := left[0].next
		for _, c := range left[1:] {
			if compareRows(c.next, least) < 0 {
				least = c.next
			}
		}
		joined := row{key: least.key, isNull: least.isNull, set: rowaddr.NewTreemap()}
		rest := left[:0]
		for _, c := range left {
			if compareRows(c.next, least) == 0 {
				joined.set.Or(c.next.set)
				if err := c.step(); errors.Is(err, io.EOF) {
					continue
				} else if err != nil {
					return err
				}
			}
			rest = append(rest, c)
		}
		left = rest
		if err := w.write(joined); err != nil {
			return err
		}
	}
	return nil
}
