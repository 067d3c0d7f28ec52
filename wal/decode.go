package wal

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

// DecodeEntry decodes the bytes of a WAL entry, whoever wrote it; name is its object name, for errors. The
// batches alias data, which must not change afterwards. The position is left 0. Everything that no correct
// writer produces (a damaged stream, a missing end marker, trailing bytes, a wrong checksum, no epoch) is an
// errs.ErrCorruption that names the object; the checksum is verified when there is one.
func DecodeEntry(name string, data []byte) (e Entry, err error) {
	defer func() {
		// Why: the Arrow reader panics on some streams that framing cannot tell from good ones.
		if r := recover(); r != nil {
			e.Release()
			e, err = Entry{}, errs.Corrupt(name, -1, "undecodable: %v", r)
		}
	}()
	if e, err = decode(data); err != nil {
		e.Release()
		at := int64(-1)
		if bad := (*messageError)(nil); errors.As(err, &bad) {
			at = int64(bad.at)
		}
		return Entry{}, errs.Corrupt(name, at, "WAL entry: %v", err)
	}
	return e, nil
}

// messageError is what is wrong with the message at a byte of an entry.
type messageError struct {
	at  int
	err error
}

func (e *messageError) Error() string { return "message: " + e.err.Error() }

func (e *messageError) Unwrap() error { return e.err }

func decode(data []byte) (e Entry, err error) {
	if uintptr(unsafe.Pointer(unsafe.SliceData(data)))%8 != 0 {
		data = slices.Clone(data) // Arrow reads wide values in place
	}
	src, bodyAt, err := frame(data)
	if err != nil {
		return e, err
	}
	rd, err := ipc.NewReaderFromMessageReader(src)
	if err != nil {
		return e, err
	}
	defer rd.Release()
	if err := e.readHeader(rd.Schema(), data[bodyAt:]); err != nil {
		return e, err
	}
	for rd.Next() {
		b := rd.RecordBatch()
		if e.Sentinel {
			return e, errors.New("fence sentinel with batches")
		}
		if b.NumCols() == 0 {
			return e, errors.New("batch without columns")
		}
		for i, c := range b.Columns() {
			if err := arrowx.Validate(c.Data()); err != nil {
				return e, fmt.Errorf("column %q: %w", b.ColumnName(i), err)
			}
		}
		if b.NumRows() > 0 {
			b.Retain()
			e.Batches = append(e.Batches, b)
		}
	}
	if err := rd.Err(); err != nil {
		return e, err
	}
	return e, nil
}

// frame splits data into messages: one schema, then batches, then the end marker and nothing else. bodyAt is
// where the bytes after the schema message begin.
func frame(data []byte) (src *messages, bodyAt int, err error) {
	src = &messages{}
	for at := 0; ; {
		m, size, err := nextMessage(data[at:])
		if err != nil {
			return nil, 0, &messageError{at, err}
		}
		at += size
		switch {
		case m == nil && len(src.list) > 0 && at == len(data):
			return src, bodyAt, nil
		case m == nil:
			return nil, 0, fmt.Errorf("end marker before byte %d of %d", at, len(data))
		case (m.kind == kindSchema) != (len(src.list) == 0):
			return nil, 0, fmt.Errorf("message of kind %d in place %d", m.kind, len(src.list))
		case m.kind == kindSchema:
			bodyAt = at
		}
		src.list = append(src.list, *m)
	}
}

// readHeader fills in what the schema metadata says.
func (e *Entry) readHeader(schema *arrow.Schema, body []byte) error {
	meta := schema.Metadata()
	text, ok := meta.GetValue(metaEpoch)
	epoch, err := strconv.ParseUint(text, 10, 64)
	if !ok || err != nil {
		return fmt.Errorf("%s %q", metaEpoch, text)
	}
	e.Epoch = Epoch(epoch)
	if text, ok := meta.GetValue(metaGeneration); ok {
		if e.Generation, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("%s %q", metaGeneration, text)
		}
	}
	if text, ok := meta.GetValue(metaJournal); ok {
		if e.Journal, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("%s %q", metaJournal, text)
		}
	}
	text, _ = meta.GetValue(metaSentinel)
	e.Sentinel = text == "true"
	if text, ok := meta.GetValue(metaChecksum); ok {
		if sum := checksum(schema, body); sum != text {
			return fmt.Errorf("checksum %s, recorded %s", sum, text)
		}
	}
	return nil
}

// messages feeds framed messages to the Arrow reader.
type messages struct {
	list []message
	cur  *ipc.Message
	refs int
}

// Message implements ipc.MessageReader.
func (s *messages) Message() (*ipc.Message, error) {
	s.drop()
	if len(s.list) == 0 {
		return nil, io.EOF
	}
	meta, body := memory.NewBufferBytes(s.list[0].meta), memory.NewBufferBytes(s.list[0].body)
	s.list = s.list[1:]
	s.cur = ipc.NewMessage(meta, body)
	meta.Release()
	body.Release()
	return s.cur, nil
}

func (s *messages) drop() {
	if s.cur != nil {
		s.cur.Release()
		s.cur = nil
	}
}

// Retain implements ipc.MessageReader.
func (s *messages) Retain() { s.refs++ }

// Release implements ipc.MessageReader.
func (s *messages) Release() {
	if s.refs--; s.refs < 0 {
		s.drop()
	}
}
