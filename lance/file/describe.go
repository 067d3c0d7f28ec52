package file

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
	"lancesql/lance/schema"
)

// Description is what the metadata of a data file says, whether or not its rows can be decoded. It is for people and
// tools: positions and sizes are bytes of the file, names are those of docs/operations.md.
type Description struct {
	Size         uint64
	Major, Minor uint16  // as the footer has them
	Version      Version // what the pair means; the zero Version if this package does not read it
	Rows         uint64
	Schema       *schema.Schema // nil if it cannot be decoded
	Globals      []Region       // global buffers; the first is the file descriptor
	Columns      []ColumnDescription
}

// Region is a range of bytes with the part it plays.
type Region struct {
	Role     string
	Position uint64
	Size     uint64
}

// ColumnDescription is one physical column.
type ColumnDescription struct {
	Metadata Region // the column's metadata message
	FieldID  int32  // by the file's own schema, -1 if it names none
	Field    string // dotted path of that field
	Encoding string // of the whole column: "values", "blob", "" if not readable
	Buffers  []Region
	Pages    []PageDescription

	perRow uint64 // what the pages count for one row; 0 = unknown
}

// Rows is the sum over the pages: rows of the file, or items for the inner columns of a 2.0 file.
func (c *ColumnDescription) Rows() uint64 {
	n := uint64(0)
	for i := range c.Pages {
		n += c.Pages[i].Rows
	}
	return n
}

// Bytes is the size of all buffers.
func (c *ColumnDescription) Bytes() uint64 {
	n := uint64(0)
	for _, b := range c.Buffers {
		n += b.Size
	}
	for i := range c.Pages {
		for _, b := range c.Pages[i].Buffers {
			n += b.Size
		}
	}
	return n
}

// Footers that Describe names although Open refuses them.
func versionUnstable() Version { return Version{2, 3} }

const legacyMinorMax = 2 // footers (0,0) to (0,2)

// Describe reads the metadata of a file without its data. It goes on past what is damaged: the second result lists
// what is wrong, each an errs.ErrCorruption, errs.ErrUnsupported, errs.ErrLimit or an error of src. The description
// is nil if not even the footer can be read.
// Spec: file format, "Container" and "Column metadata".
func Describe(ctx context.Context, src Source) (*Description, []error) {
	d := &describer{ctx: ctx, src: src}
	d.run()
	return d.out, d.problems
}

// describer collects a description and what is wrong with the file.
type describer struct {
	ctx      context.Context
	src      Source
	size     uint64
	out      *Description
	problems []error

	// described counts metadata bytes looked at. Invariant: at most the size of the file, so that offset tables whose
	// entries overlap cannot multiply the work.
	described uint64
}

func (d *describer) problem(err error) { d.problems = append(d.problems, err) }

func (d *describer) corrupt(at int64, format string, args ...any) {
	d.problem(errs.Corrupt(d.src.Name(), at, format, args...))
}

func (d *describer) run() {
	if d.src.Size() < footerBytes {
		d.corrupt(0, "file of %d bytes has no footer", d.src.Size())
		return
	}
	d.size = uint64(d.src.Size())
	tail := make([]byte, footerBytes)
	if err := d.src.ReadAt(d.ctx, tail, int64(d.size-footerBytes)); err != nil {
		d.problem(fmt.Errorf("read footer of %s: %w", d.src.Name(), err))
		return
	}
	if string(tail[36:]) != magic {
		d.corrupt(int64(d.size-4), "footer magic %q", tail[36:])
		return
	}
	d.out = &Description{Size: d.size, Major: binary.LittleEndian.Uint16(tail[32:]), Minor: binary.LittleEndian.Uint16(tail[34:])}
	var known bool
	if d.out.Version, known = fromFooter(d.out.Major, d.out.Minor); !known {
		d.problem(fmt.Errorf("%s: footer version %d.%d: %w", d.src.Name(), d.out.Major, d.out.Minor, errs.ErrUnsupported))
		if d.out.Major == 0 && d.out.Minor <= legacyMinorMax { // Why: the legacy container has another footer
			return
		}
	}
	f, err := parseFooter(d.src.Name(), tail, d.size)
	if err != nil {
		d.problem(err)
		return
	}
	d.globals(f)
	d.columns(f)
}

// read returns a range of metadata, nil if it cannot be had.
func (d *describer) read(what string, e extent) []byte {
	switch {
	case !within(e.pos, e.size, d.size):
		d.corrupt(-1, "%s of %d bytes at %d in a file of %d", what, e.size, e.pos, d.size)
		return nil
	case e.size > maxMetadataBytes:
		d.problem(fmt.Errorf("%s: %s of %d bytes: %w", d.src.Name(), what, e.size, errs.ErrLimit))
		return nil
	case e.size > d.size-d.described:
		d.corrupt(int64(e.pos), "%s overlaps other metadata", what)
		return nil
	}
	d.described += e.size
	b := make([]byte, e.size)
	if len(b) == 0 {
		return b
	}
	if err := d.src.ReadAt(d.ctx, b, int64(e.pos)); err != nil {
		d.problem(fmt.Errorf("read %s of %s: %w", what, d.src.Name(), err))
		return nil
	}
	return b
}

// table reads an offset table.
func (d *describer) table(what string, pos uint64, entries uint32) []extent {
	raw := d.read(what, extent{pos, uint64(entries) * entryBytes})
	out := make([]extent, len(raw)/entryBytes)
	for i := range out {
		out[i] = parseExtent(raw[i*entryBytes:])
	}
	return out
}

func (d *describer) globals(f footer) {
	for i, e := range d.table("global buffer table", f.gbo, f.globals) {
		role := "global"
		if i == 0 {
			role = "descriptor"
		}
		d.out.Globals = append(d.out.Globals, Region{role, e.pos, e.size})
		if !within(e.pos, e.size, d.size) {
			d.corrupt(int64(f.gbo)+int64(i)*entryBytes, "global buffer %d: %d bytes at %d in a file of %d", i, e.size, e.pos, d.size)
			continue
		}
		if i > 0 {
			continue
		}
		raw := d.read("file descriptor", e)
		if raw == nil {
			continue
		}
		var m pb.FileDescriptor
		if err := proto.Unmarshal(raw, &m); err != nil {
			d.corrupt(int64(e.pos), "file descriptor: %v", err)
			continue
		}
		d.out.Rows = m.GetLength()
		s, err := schema.FromProto(m.GetSchema().GetFields(), m.GetSchema().GetMetadata())
		if err != nil {
			d.corrupt(int64(e.pos), "schema: %v", err)
			continue
		}
		d.out.Schema = s
	}
}

func (d *describer) columns(f footer) {
	names := d.fieldsByColumn()
	for i, e := range d.table("column metadata table", f.cmo, f.columns) {
		if err := d.ctx.Err(); err != nil {
			d.problem(err)
			return
		}
		c := ColumnDescription{Metadata: Region{"metadata", e.pos, e.size}, FieldID: -1}
		if n, ok := names[int32(i)]; ok {
			c.FieldID, c.Field, c.perRow = n.id, n.path, n.perRow
		}
		if !within(e.pos, e.size, d.size) {
			d.corrupt(int64(f.cmo)+int64(i)*entryBytes, "metadata of column %d: %d bytes at %d in a file of %d", i, e.size, e.pos, d.size)
		} else if raw := d.read(fmt.Sprintf("metadata of column %d", i), e); raw != nil {
			d.column(i, &c, raw)
		}
		d.out.Columns = append(d.out.Columns, c)
	}
}

func (d *describer) column(index int, c *ColumnDescription, raw []byte) {
	at := int64(c.Metadata.Position)
	var m pb.ColumnMetadata
	if err := proto.Unmarshal(raw, &m); err != nil {
		d.corrupt(at, "metadata of column %d: %v", index, err)
		return
	}
	var err error
	if c.Encoding, err = columnEncodingText(m.GetEncoding()); err != nil {
		d.corrupt(at, "column %d: %v", index, err)
	}
	c.Buffers = d.buffers(at, fmt.Sprintf("column %d", index), m.GetBufferOffsets(), m.GetBufferSizes())
	rows := uint64(0)
	for i, p := range m.GetPages() {
		what := fmt.Sprintf("column %d page %d", index, i)
		pg := PageDescription{Rows: p.GetLength(), Priority: p.GetPriority(), Buffers: d.buffers(at, what, p.GetBufferOffsets(), p.GetBufferSizes())}
		for _, err := range pg.describe(p.GetEncoding(), d.out.Major == 0 || d.out.Version == V20()) {
			d.corrupt(at, "%s: %v", what, err)
		}
		if p.GetLength() > 1<<62-rows {
			d.corrupt(at, "%s has %d rows", what, p.GetLength())
			pg.Rows = 0
		}
		rows += pg.Rows
		c.Pages = append(c.Pages, pg)
	}
	if want := d.out.Rows * c.perRow; c.perRow > 0 && rows != want && d.out.Version != V20() {
		d.corrupt(at, "the pages of column %d hold %d rows, the file %d", index, rows, want)
	}
}

// buffers pairs positions and sizes and checks that they lie inside the file, aligned from 2.1 on.
func (d *describer) buffers(at int64, what string, positions, sizes []uint64) []Region {
	if len(positions) != len(sizes) {
		d.corrupt(at, "%s has %d buffer positions and %d sizes", what, len(positions), len(sizes))
	}
	var out []Region
	for i := range min(len(positions), len(sizes)) {
		pos, size := positions[i], sizes[i]
		switch {
		case !within(pos, size, d.size):
			d.corrupt(at, "%s buffer %d: %d bytes at %d in a file of %d", what, i, size, pos, d.size)
		case pos%alignment != 0 && d.out.Version != V20():
			d.corrupt(at, "%s buffer %d: position %d is not a multiple of %d", what, i, pos, alignment)
		}
		out = append(out, Region{fmt.Sprintf("buffer-%d", i), pos, size})
	}
	return out
}

// namedField is a field of the schema, its dotted path, and how many of its values a row has: more than one below
// fixed-size lists of structs, which have no level of their own.
type namedField struct {
	id     int32
	path   string
	perRow uint64
}

// fieldsByColumn numbers the physical columns by the file's own schema.
func (d *describer) fieldsByColumn() map[int32]namedField {
	if d.out.Schema == nil {
		return nil
	}
	v := d.out.Version
	if v == (Version{}) {
		v = versionUnstable()
	}
	out := make(map[int32]namedField)
	columns := columnsByID(d.out.Schema, v)
	var walk func(prefix string, perRow uint64, fields []*schema.Field)
	walk = func(prefix string, perRow uint64, fields []*schema.Field) {
		for _, f := range fields {
			if column, ok := columns[f.ID]; ok {
				out[column] = namedField{f.ID, prefix + f.Name, perRow}
			}
			walk(prefix+f.Name+".", perRow*structListLength(f), f.Children)
		}
	}
	walk("", 1, d.out.Schema.Fields)
	return out
}

// structListLength is the length of a fixed-size list of structs, 1 for every other field.
func structListLength(f *schema.Field) uint64 {
	digits, ok := strings.CutPrefix(f.LogicalType, "fixed_size_list:struct:")
	n, err := strconv.ParseUint(digits, 10, 31)
	if !ok || err != nil {
		return 1
	}
	return n
}
