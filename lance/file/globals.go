package file

import (
	"context"
	"fmt"

	"lancesql/internal/errs"
)

// globalsMax bounds the global buffers that a Writer takes; index files have one or two.
const globalsMax = 1 << 16

// AddBuffer writes a global buffer and returns its number, 1 for the first: 0 is the file descriptor. b is borrowed.
// Spec: file format, "Container".
func (w *Writer) AddBuffer(b []byte) (uint32, error) {
	if w.err != nil {
		return 0, w.err
	}
	if len(w.globals) >= globalsMax {
		return 0, fmt.Errorf("%d global buffers: %w", len(w.globals)+1, errs.ErrLimit)
	}
	if err := w.align(); err != nil {
		return 0, err
	}
	at := extent{w.pos, uint64(len(b))}
	if err := w.write(b); err != nil {
		return 0, err
	}
	w.globals = append(w.globals, at)
	return uint32(len(w.globals)), nil
}

// SetMetadata sets an entry of the schema's metadata, over one that the schema came with, before Finish.
func (w *Writer) SetMetadata(key, value string) {
	if w.extra == nil {
		w.extra = make(map[string]string)
	}
	w.extra[key] = value
}

// Buffers returns the number of global buffers, the file descriptor among them.
func (r *Reader) Buffers() uint32 { return r.globals }

// Buffer reads global buffer number, 0 being the file descriptor. limit bounds it in bytes (errs.ErrLimit beyond).
// errs.ErrInvalid for a number the file does not have. The caller owns the bytes.
func (r *Reader) Buffer(ctx context.Context, number uint32, limit uint64) ([]byte, error) {
	if number >= r.globals {
		return nil, fmt.Errorf("%s: global buffer %d of %d: %w", r.src.Name(), number, r.globals, errs.ErrInvalid)
	}
	var entry [entryBytes]byte
	if err := r.readAt(ctx, entry[:], r.gbo+uint64(number)*entryBytes); err != nil {
		return nil, err
	}
	at := parseExtent(entry[:])
	if !within(at.pos, at.size, r.size) {
		return nil, errs.Corrupt(r.src.Name(), int64(r.gbo)+int64(number)*entryBytes, "global buffer of %d bytes at %d in a file of %d", at.size, at.pos, r.size)
	}
	if at.size > limit {
		return nil, fmt.Errorf("%s: global buffer %d of %d bytes, at most %d: %w", r.src.Name(), number, at.size, limit, errs.ErrLimit)
	}
	b := make([]byte, at.size)
	return b, r.readAt(ctx, b, at.pos)
}
