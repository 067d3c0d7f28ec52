package file

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/encoding"
	"lancesql/lance/pb"
	"lancesql/lance/schema"
)

const (
	// defaultPageBytes makes pages as the reference writer cuts them.
	defaultPageBytes = 8 << 20
	// maxBufferedBytes bounds what a Writer holds over all columns; the fullest column is written first.
	maxBufferedBytes = 128 << 20
	// sliceRows is how many rows are taken from a batch at a time, so that page sizes are looked at often enough.
	sliceRows = 4096
	// pagePad fills the gaps between page buffers; readers do not check it.
	pagePad = 0x48
)

// WriterOptions configures a Writer. The zero value is the default.
type WriterOptions struct {
	Version      Version // zero: V22
	MaxPageBytes int     // unencoded bytes of one column that make a page; zero: 8 MiB
	AllowEmpty   bool    // a file without rows is finished like any other: index files may have none
}

// Summary is what a manifest must know about a finished file.
type Summary struct {
	Rows          uint64
	Size          uint64  // bytes of the whole file
	FieldIDs      []int32 // ids of the fields that own a column
	ColumnIndices []int32 // physical column of each of them
}

// Writer streams one data file. It is not safe for concurrent use. A failed Write or Finish leaves it unusable.
type Writer struct {
	out       io.Writer
	pos       uint64 // bytes written
	version   Version
	maxPage   int
	empty     bool // a file without rows is fine
	schema    *schema.Schema
	extra     map[string]string // metadata set after the start
	globals   []extent          // buffers added by the caller
	columns   []*columnWriter
	tops      []topField
	finishing bool // no more rows will come
	rows      uint64
	buffered  int // bytes held over all columns
	err       error
}

// columnWriter collects the rows of the next page of one column.
type columnWriter struct {
	field  *schema.Field
	typ    encoding.Type
	binary bool // not text
	hints  encoding.Hints
	vec    *encoding.Vector
	leaf   *encoding.Leaf  // of a nested field, instead of vec
	path   []encoding.Step // from the top-level field to the leaf
	first  uint64          // rows in earlier pages
	pages  []*pb.ColumnPage
}

// NewWriter starts a file with the columns of s, which must not be empty. errs.ErrUnsupported for types or versions
// that cannot be written.
// Spec: file format, "A sound default writer".
func NewWriter(w io.Writer, s *schema.Schema, o WriterOptions) (*Writer, error) {
	fw := &Writer{out: w, version: o.Version, maxPage: o.MaxPageBytes, empty: o.AllowEmpty, schema: s}
	if fw.version == (Version{}) {
		fw.version = V22()
	}
	if fw.version != V22() && fw.version != V21() && fw.version != V20() {
		return nil, fmt.Errorf("write lance file of version %s: %w", fw.version, errs.ErrUnsupported)
	}
	if fw.maxPage <= 0 {
		fw.maxPage = defaultPageBytes
	}
	if len(s.Fields) == 0 {
		return nil, fmt.Errorf("write lance file without columns: %w", errs.ErrInvalid)
	}
	for _, f := range s.Fields {
		var err error
		f.Walk(func(f *schema.Field) {
			if f.BlobV2() {
				err = fmt.Errorf("blob v2 column %q: %w", f.Name, errs.ErrUnsupported)
			}
		})
		if err != nil {
			return nil, err
		}
		if err := fw.addField(f); err != nil {
			return nil, fmt.Errorf("write field %q: %w", f.Name, err)
		}
	}
	return fw, nil
}

// Write appends the rows of rec, whose columns have the types of the schema's fields, in order; empty batches and
// slices of larger batches are fine. rec is borrowed. errs.ErrInvalid if it does not fit the schema or a non-nullable
// field has nulls.
func (w *Writer) Write(rec arrow.RecordBatch) error {
	if w.err != nil {
		return w.err
	}
	if err := w.check(rec); err != nil {
		return err
	}
	total := int(rec.NumRows())
	for from := 0; from < total; from += sliceRows {
		to := min(from+sliceRows, total)
		for i, top := range w.tops {
			for _, c := range top.columns {
				if err := w.appendRows(c, rec.Column(i), from, to); err != nil {
					return w.fail(err)
				}
			}
		}
		for w.buffered > maxBufferedBytes {
			if err := w.flush(w.fullest()); err != nil {
				return err
			}
		}
		w.rows += uint64(to - from)
	}
	return nil
}

func (w *Writer) fail(err error) error {
	w.err = err
	return err
}

// check compares a batch with the schema.
func (w *Writer) check(rec arrow.RecordBatch) error {
	if int(rec.NumCols()) != len(w.tops) {
		return fmt.Errorf("batch of %d columns for a file of %d: %w", rec.NumCols(), len(w.tops), errs.ErrInvalid)
	}
	for i, top := range w.tops {
		col := rec.Column(i)
		if !storable(top.typ, col.DataType()) {
			return fmt.Errorf("column %q of type %s for a field of type %s: %w", top.field.Name, col.DataType(), top.field.LogicalType, errs.ErrInvalid)
		}
		if !top.field.Nullable && top.typ.ID() != arrow.NULL && col.NullN() > 0 {
			return fmt.Errorf("column %q is not nullable and has %d nulls: %w", top.field.Name, col.NullN(), errs.ErrInvalid)
		}
	}
	return nil
}

// appendRows takes rows of an array into the column's page, as many at a time as make about one page at most.
func (w *Writer) appendRows(c *columnWriter, a arrow.Array, from, to int) error {
	for from < to {
		upTo := to
		for upTo-from > 1 && c.arrayBytes(a, from, upTo) > w.maxPage {
			upTo = from + (upTo-from)/2
		}
		before := c.bytes()
		if err := c.append(a, from, upTo); err != nil {
			return fmt.Errorf("write column %q: %w", c.field.Name, err)
		}
		w.buffered += c.bytes() - before
		if c.bytes() > w.maxPage {
			if err := w.flush(c); err != nil {
				return err
			}
		}
		from = upTo
	}
	return nil
}

func (w *Writer) fullest() *columnWriter {
	best := w.columns[0]
	for _, c := range w.columns[1:] {
		if c.bytes() > best.bytes() {
			best = c
		}
	}
	return best
}

// flush writes the buffered rows of a column: one page, or several if the levels of a nested column ask for it.
func (w *Writer) flush(c *columnWriter) error {
	if c.leaf != nil {
		return w.flushLeaf(c)
	}
	if c.vec.Len() == 0 {
		return nil
	}
	description, buffers, err := w.encode(c)
	if err != nil {
		return w.fail(fmt.Errorf("encode column %q: %w", c.field.Name, err))
	}
	if err := w.writePage(c, c.vec.Len(), description, buffers); err != nil {
		return err
	}
	w.buffered -= c.bytes()
	c.vec.Reset()
	return nil
}

// writePage writes the buffers of a page and notes it in the metadata of its column.
func (w *Writer) writePage(c *columnWriter, rows int, description *pb.MetaEncoding, buffers [][]byte) error {
	meta := &pb.ColumnPage{Length: uint64(rows), Priority: c.first, Encoding: description}
	for _, b := range buffers {
		if err := w.align(); err != nil {
			return err
		}
		meta.BufferOffsets = append(meta.BufferOffsets, w.pos)
		meta.BufferSizes = append(meta.BufferSizes, uint64(len(b)))
		if err := w.write(b); err != nil {
			return err
		}
	}
	c.first += uint64(rows)
	c.pages = append(c.pages, meta)
	return nil
}

// encode makes a page of the rows a column holds.
func (w *Writer) encode(c *columnWriter) (description *pb.MetaEncoding, buffers [][]byte, err error) {
	var message []byte
	url, v := layoutURL, c.vec
	if w.version == V20() {
		url = arrayEncodingURL
		page, err := encoding.EncodeOldPage(v)
		if err != nil {
			return nil, nil, err
		}
		buffers = page.Buffers
		if message, err = proto.Marshal(page.Encoding); err != nil {
			return nil, nil, err
		}
	} else {
		page, err := encoding.EncodePage(v, w.pageOptions(c))
		if err != nil {
			return nil, nil, err
		}
		buffers = page.Buffers
		if message, err = proto.Marshal(page.Layout); err != nil {
			return nil, nil, err
		}
	}
	description, err = directEncoding(url, message)
	return description, buffers, err
}

// directEncoding wraps a description as metadata holds it.
func directEncoding(url string, value []byte) (*pb.MetaEncoding, error) {
	raw, err := proto.Marshal(&pb.AnyMessage{TypeUrl: url, Value: value})
	if err != nil {
		return nil, fmt.Errorf("encode description %s: %w", url, err)
	}
	return &pb.MetaEncoding{Location: &pb.MetaEncoding_Direct_{Direct: &pb.MetaEncoding_Direct{Encoding: raw}}}, nil
}

func (w *Writer) write(b []byte) error {
	n, err := w.out.Write(b)
	w.pos += uint64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return w.fail(fmt.Errorf("write lance file: %w", err))
	}
	return nil
}

// align pads to the next multiple of alignment. It establishes invariant 4.
func (w *Writer) align() error {
	var pad [alignment]byte
	for i := range pad {
		pad[i] = pagePad
	}
	return w.write(pad[:(alignment-w.pos%alignment)%alignment])
}

// Finish writes what is buffered and the file's metadata. errs.ErrInvalid for a file without rows, which data files
// do not have (see WriterOptions.AllowEmpty). The Writer cannot be used afterwards; the io.Writer is not closed.
func (w *Writer) Finish() (Summary, error) {
	if w.err != nil {
		return Summary{}, w.err
	}
	if w.rows == 0 && !w.empty {
		return Summary{}, w.fail(fmt.Errorf("lance file without rows: %w", errs.ErrInvalid))
	}
	w.finishing = true
	sum := Summary{Rows: w.rows}
	for i, c := range w.columns {
		if err := w.flush(c); err != nil {
			return Summary{}, err
		}
		c.release()
		sum.FieldIDs = append(sum.FieldIDs, c.field.ID)
		sum.ColumnIndices = append(sum.ColumnIndices, int32(i))
	}
	if err := w.finishMetadata(); err != nil {
		return Summary{}, err
	}
	sum.Size = w.pos
	w.err = fmt.Errorf("lance file writer: %w", errs.ErrClosed)
	return sum, nil
}

// Abort frees memory of a file that will not be finished. It is a no-op after Finish.
func (w *Writer) Abort() {
	for _, c := range w.columns {
		c.release()
	}
	if w.err == nil {
		w.err = fmt.Errorf("lance file writer: %w", errs.ErrClosed)
	}
}

// finishMetadata writes the descriptor, the column metadata, both offset tables and the footer.
func (w *Writer) finishMetadata() error {
	if err := w.align(); err != nil {
		return err
	}
	metadata := make(map[string][]byte, len(w.schema.Metadata))
	for k, v := range w.schema.Metadata {
		metadata[k] = []byte(v)
	}
	for k, v := range w.extra {
		metadata[k] = []byte(v)
	}
	descriptor, err1 := proto.MarshalOptions{Deterministic: true}.Marshal(&pb.FileDescriptor{
		Schema: &pb.Schema{Fields: w.schema.ToProto(), Metadata: metadata}, Length: w.rows})
	columnEncoding, err2 := valuesColumnEncoding()
	if err := errors.Join(err1, err2); err != nil {
		return w.fail(fmt.Errorf("encode file descriptor: %w", err))
	}
	globals := append([]extent{{w.pos, uint64(len(descriptor))}}, w.globals...)
	if err := w.write(descriptor); err != nil {
		return err
	}
	f := footer{columnStart: w.pos, globals: uint32(len(globals)), columns: uint32(len(w.columns))}
	f.major, f.minor = w.version.footer()
	var tables []byte
	for _, c := range w.columns {
		raw, err := proto.Marshal(&pb.ColumnMetadata{Encoding: columnEncoding, Pages: c.pages})
		if err != nil {
			return w.fail(fmt.Errorf("encode metadata of column %q: %w", c.field.Name, err))
		}
		tables = appendExtent(tables, extent{w.pos, uint64(len(raw))})
		if err := w.write(raw); err != nil {
			return err
		}
	}
	f.cmo = w.pos
	f.gbo = w.pos + uint64(len(tables))
	for _, g := range globals {
		tables = appendExtent(tables, g)
	}
	return w.write(f.append(tables))
}

// valuesColumnEncoding is the column encoding every column needs: plain values.
func valuesColumnEncoding() (*pb.MetaEncoding, error) {
	raw, err := proto.Marshal(&pb.ColumnEncoding20{
		ColumnEncoding: &pb.ColumnEncoding20_Values{Values: &pb.ColumnEncoding20_Empty{}}})
	if err != nil {
		return nil, fmt.Errorf("encode column encoding: %w", err)
	}
	return directEncoding(columnEncodingURL, raw)
}
