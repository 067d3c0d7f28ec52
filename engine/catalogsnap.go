package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"lancesql/internal/errs"
)

// A catalog snapshot is one object, `_lancesql/catalog/{version:020d}.snap`:
//
//	offset  size  field
//	     0     8  magic "LSQLCAT\n"
//	     8     4  format, 1
//	    12     8  n, length of the body
//	    20     4  crc32c of bytes 0 to 19 and the body
//	    24     n  body, JSON
//
// Numbers are little-endian. A reader that knows only smaller formats must stop after the format field.
// docs/format/catalog.md describes the body.
const (
	catalogDir         = systemDir + "/catalog"
	snapshotSuffix     = ".snap"
	snapshotMagic      = "LSQLCAT\n"
	snapshotFormat     = 1
	snapshotHeaderSize = 24

	snapshotBytesMax = 256 << 20
	shapeBytesMax    = 4 << 20
	databasesMax     = 10_000
	tablesMax        = 100_000
	columnsMax       = 10_000
	optionsMax       = 50_000 // views, triggers, routines and events are options
	optionBytesMax   = 1 << 20
	intentsMax       = 2*tablesMax + databasesMax
)

// errTorn marks a snapshot that ends before its own length: a copy that was cut short, never a write of ours.
var errTorn = errors.New("snapshot is cut short")

func snapshotName(version uint64) string {
	return fmt.Sprintf("%s/%020d%s", catalogDir, version, snapshotSuffix)
}

// parseSnapshotName inverts snapshotName.
func parseSnapshotName(name string) (version uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, catalogDir+"/")
	if !ok {
		return 0, false
	}
	digits, ok = strings.CutSuffix(digits, snapshotSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	version, err := strconv.ParseUint(digits, 10, 64)
	return version, err == nil && version > 0 && snapshotName(version) == name
}

type bodyJSON struct {
	Version   uint64         `json:"version"`
	Written   time.Time      `json:"written"` // for people
	Databases []databaseJSON `json:"databases"`
	Intents   []intent       `json:"intents"`
}

type databaseJSON struct {
	Name    string          `json:"name"`
	Dir     string          `json:"dir"`
	Options DatabaseOptions `json:"options,omitempty"`
	Tables  []tableJSON     `json:"tables"`
}

type tableJSON struct {
	ID         TableID    `json:"id"`
	Name       string     `json:"name"`
	Path       string     `json:"path"`
	Schema     []byte     `json:"schema"` // Arrow IPC stream without batches
	Shape      []byte     `json:"shape,omitempty"`
	AutoColumn int        `json:"auto_column"`
	NextAuto   uint64     `json:"next_auto"`
	Indexes    []IndexDef `json:"indexes,omitempty"`
}

// encodeSnapshot returns the bytes of the image's snapshot. errs.ErrLimit if they are too many.
func encodeSnapshot(c *Catalog, written time.Time) ([]byte, error) {
	var body bytes.Buffer
	body.Write(make([]byte, snapshotHeaderSize))
	fmt.Fprintf(&body, `{"version":%d,"written":%q,"databases":[`, c.Version, written.UTC().Format(time.RFC3339))
	for i, d := range c.databases {
		head, err := json.Marshal(databaseJSON{Name: d.Name, Dir: d.dir, Options: d.Options, Tables: []tableJSON{}})
		if err != nil {
			return nil, fmt.Errorf("encode database %s: %w", d.Name, err)
		}
		separate(&body, i)
		body.Write(bytes.TrimSuffix(head, []byte("]}"))) // the tables follow, already encoded
		for j, t := range d.tables {
			separate(&body, j)
			body.Write(t.encoded)
		}
		body.WriteString("]}")
	}
	intents, err := json.Marshal(append([]intent{}, c.intents...))
	if err != nil {
		return nil, fmt.Errorf("encode intents: %w", err)
	}
	body.WriteString(`],"intents":`)
	body.Write(intents)
	body.WriteByte('}')
	return sealSnapshot(body.Bytes())
}

func separate(b *bytes.Buffer, i int) {
	if i > 0 {
		b.WriteByte(',')
	}
}

// sealSnapshot fills in the header before a body that leaves room for it.
func sealSnapshot(data []byte) ([]byte, error) {
	if len(data) > snapshotBytesMax {
		return nil, fmt.Errorf("catalog snapshot of %d bytes, at most %d: %w", len(data), snapshotBytesMax, errs.ErrLimit)
	}
	copy(data, snapshotMagic)
	binary.LittleEndian.PutUint32(data[8:], snapshotFormat)
	binary.LittleEndian.PutUint64(data[12:], uint64(len(data)-snapshotHeaderSize))
	binary.LittleEndian.PutUint32(data[20:], snapshotSum(data))
	return data, nil
}

func snapshotSum(data []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(data[:20], table), table, data[snapshotHeaderSize:])
}

// openSnapshot checks the header and returns the body. Errors: errTorn, errs.ErrNewerFormat, errs.ErrCorruption.
func openSnapshot(object string, data []byte) ([]byte, error) {
	if len(data) < snapshotHeaderSize {
		if strings.HasPrefix(snapshotMagic, string(data[:min(len(data), len(snapshotMagic))])) {
			return nil, fmt.Errorf("%s: %w", object, errTorn)
		}
		return nil, errs.Corrupt(object, 0, "not a catalog snapshot")
	}
	if string(data[:8]) != snapshotMagic {
		return nil, errs.Corrupt(object, 0, "magic %q", data[:8])
	}
	switch format := binary.LittleEndian.Uint32(data[8:]); {
	case format > snapshotFormat:
		return nil, fmt.Errorf("%s has format %d, this version knows %d: %w", object, format, snapshotFormat, errs.ErrNewerFormat)
	case format == 0:
		return nil, errs.Corrupt(object, 8, "format 0")
	}
	body := data[snapshotHeaderSize:]
	switch n := binary.LittleEndian.Uint64(data[12:]); {
	case n > snapshotBytesMax:
		return nil, errs.Corrupt(object, 12, "body of %d bytes, at most %d", n, snapshotBytesMax)
	case uint64(len(body)) < n:
		return nil, fmt.Errorf("%s has %d of %d bytes: %w", object, len(body), n, errTorn)
	case uint64(len(body)) > n:
		return nil, errs.Corrupt(object, 12, "body of %d bytes, %d expected", len(body), n)
	}
	if got, want := snapshotSum(data), binary.LittleEndian.Uint32(data[20:]); got != want {
		return nil, errs.Corrupt(object, 20, "checksum %08x, %08x expected", got, want)
	}
	return body, nil
}

// decodeSnapshot returns the image that encodeSnapshot wrote; errors as openSnapshot.
func decodeSnapshot(object string, version uint64, data []byte) (*Catalog, error) {
	body, err := openSnapshot(object, data)
	if err != nil {
		return nil, err
	}
	var in bodyJSON
	if err := strictJSON(body, &in); err != nil {
		return nil, errs.Corrupt(object, snapshotHeaderSize, "body: %v", err)
	}
	if in.Version != version {
		return nil, errs.Corrupt(object, snapshotHeaderSize, "body has version %d", in.Version)
	}
	c, err := in.catalog()
	if err != nil {
		return nil, errs.Corrupt(object, -1, "%v", err)
	}
	return c, nil
}

func strictJSON(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	// Why: a field that this version does not know would be lost at the next statement. A new field needs a new
	// format number.
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.InputOffset() != int64(len(data)) {
		return fmt.Errorf("%d bytes after the end", int64(len(data))-d.InputOffset())
	}
	return nil
}

// catalog builds the image and checks everything that the engine relies on.
func (b *bodyJSON) catalog() (*Catalog, error) {
	if len(b.Databases) > databasesMax || len(b.Intents) > intentsMax {
		return nil, fmt.Errorf("%d databases and %d intents: %w", len(b.Databases), len(b.Intents), errs.ErrLimit)
	}
	seen := uniqueness{}
	databases := make([]*Database, len(b.Databases))
	for i, dj := range b.Databases {
		d, err := dj.database(seen)
		if err != nil {
			return nil, fmt.Errorf("database %d: %w", i, err)
		}
		databases[i] = d
	}
	for _, in := range b.Intents {
		if err := in.validate(); err != nil {
			return nil, err
		}
	}
	return newCatalog(b.Version, databases, b.Intents), nil
}

// uniqueness notes what may occur only once in a catalog.
type uniqueness map[string]bool

func (u uniqueness) add(kind, value string) error {
	key := kind + "\x00" + value
	if u[key] {
		return fmt.Errorf("%s %q occurs twice: %w", kind, value, errs.ErrInvalid)
	}
	u[key] = true
	return nil
}

func (dj *databaseJSON) database(seen uniqueness) (*Database, error) {
	if err := errors.Join(checkName("database", dj.Name), checkOptions(dj.Options), seen.add("database", fold(dj.Name)), seen.add("directory", dj.Dir)); err != nil {
		return nil, err
	}
	if !isDirName(dj.Dir) {
		return nil, fmt.Errorf("directory %q: %w", dj.Dir, errs.ErrInvalid)
	}
	tables := make([]*TableEntry, len(dj.Tables))
	for i, tj := range dj.Tables {
		t, err := tj.entry(dj.Name)
		if err == nil {
			err = errors.Join(seen.add("table in "+fold(dj.Name), fold(t.Name)), seen.add("path", t.Path), seen.add("id", t.ID.String()))
		}
		if err != nil {
			return nil, fmt.Errorf("table %d of %q: %w", i, dj.Name, err)
		}
		tables[i] = t
	}
	return newDatabase(dj.Name, dj.Dir, dj.Options, tables), nil
}

func (tj *tableJSON) entry(database string) (*TableEntry, error) {
	s, err := decodeSchema(tj.Schema)
	if err != nil {
		return nil, err
	}
	t := &TableEntry{ID: tj.ID, Database: database, Name: tj.Name, Path: tj.Path, Schema: s, Shape: tj.Shape,
		AutoColumn: tj.AutoColumn, NextAuto: tj.NextAuto, Indexes: tj.Indexes}
	return t, t.seal()
}

// seal checks a new entry and keeps its encoded form.
func (t *TableEntry) seal() error {
	if err := checkName("table", t.Name); err != nil {
		return err
	}
	switch n := t.Schema.NumFields(); {
	case !isTablePath(t.Path):
		return fmt.Errorf("table path %q: %w", t.Path, errs.ErrInvalid)
	case t.ID == TableID{}:
		return fmt.Errorf("table id is zero: %w", errs.ErrInvalid)
	case n == 0:
		return fmt.Errorf("table without columns: %w", errs.ErrInvalid)
	case n > columnsMax:
		return fmt.Errorf("table of %d columns, at most %d: %w", n, columnsMax, errs.ErrLimit)
	case t.AutoColumn < -1 || t.AutoColumn >= n:
		return fmt.Errorf("AUTO_INCREMENT column %d of %d: %w", t.AutoColumn, n, errs.ErrInvalid)
	case len(t.Shape) > shapeBytesMax:
		return fmt.Errorf("table shape of %d bytes, at most %d: %w", len(t.Shape), shapeBytesMax, errs.ErrLimit)
	}
	if err := checkIndexes(t.Indexes, t.Schema.NumFields()); err != nil {
		return err
	}
	schema, err := encodeSchema(t.Schema)
	if err != nil {
		return err
	}
	t.encoded, err = json.Marshal(tableJSON{ID: t.ID, Name: t.Name, Path: t.Path, Schema: schema, Shape: t.Shape,
		AutoColumn: t.AutoColumn, NextAuto: t.NextAuto, Indexes: t.Indexes})
	if err != nil {
		return fmt.Errorf("encode table %s: %w", t.Name, err)
	}
	return nil
}

func checkOptions(o DatabaseOptions) error {
	if len(o) > optionsMax {
		return fmt.Errorf("%d options, at most %d: %w", len(o), optionsMax, errs.ErrLimit)
	}
	for k, v := range o {
		switch {
		case len(k)+len(v) > optionBytesMax:
			return fmt.Errorf("option of %d bytes, at most %d: %w", len(k)+len(v), optionBytesMax, errs.ErrLimit)
		case !utf8.ValidString(k) || !utf8.ValidString(v):
			return fmt.Errorf("option %q is not UTF-8: %w", k, errs.ErrInvalid)
		}
	}
	return nil
}

func encodeSchema(s *arrow.Schema) ([]byte, error) {
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(s))
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return buf.Bytes(), nil
}

func decodeSchema(data []byte) (s *arrow.Schema, err error) {
	// Why: the Arrow reader trusts offsets inside the message. The checksum vouches for ours, but not for a file that
	// was made to fool it.
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("decode schema: %v: %w", p, errs.ErrInvalid)
		}
	}()
	size := int64(len(data))
	r, err := ipc.NewReader(bytes.NewReader(data), ipc.WithMetadataSizeLimit(size), ipc.WithBodySizeLimit(size))
	if err != nil {
		return nil, fmt.Errorf("decode schema: %w", err)
	}
	defer r.Release()
	return r.Schema(), nil
}
