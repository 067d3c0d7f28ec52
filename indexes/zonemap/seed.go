package zonemap

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/file"
	"lancesql/lance/rowaddr"
)

// A write seed is the statistics of one column of one data file, inside that file:
//
//	schema metadata "lance.seed.<column path>" = "<global buffer>:<rows per zone>[:<field id>]"
//	global buffer: Arrow IPC file of one batch: min, max, null_count, nan_count, zone_length, one row per zone;
//	               its schema metadata "seed_null_bitmap" = hex of a portable Roaring bitmap of NULLs, "" for none
//
// Zone i begins at row i × rows per zone. Spec: zone map index, "Write seeds".
const (
	seedKeyPrefix  = "lance.seed."
	seedNullBitmap = "seed_null_bitmap"
	seedBytesMax   = 256 << 20
)

// SeedTarget is a data file being written; *lance/file.Writer is one.
type SeedTarget interface {
	AddBuffer(b []byte) (number uint32, err error)
	SetMetadata(key, value string)
}

// AppendSeed embeds the statistics of a column, named by its path, into the data file that holds exactly these rows.
// errs.ErrInvalid for statistics that are not of rows 0 to n without gaps, or that do not know where the NULLs are.
func AppendSeed(w SeedTarget, path string, s *Stats) error {
	b, err := s.EncodeSeed()
	if err != nil {
		return fmt.Errorf("seed of %q: %w", path, err)
	}
	number, err := w.AddBuffer(b)
	if err != nil {
		return fmt.Errorf("seed of %q: %w", path, err)
	}
	w.SetMetadata(seedKeyPrefix+path, fmt.Sprintf("%d:%d", number, s.rowsPerZone))
	return nil
}

// EncodeSeed serialises the statistics as the buffer of a seed, with the bounds of version 0.
func (s *Stats) EncodeSeed() ([]byte, error) {
	if s.nulls == nil {
		return nil, fmt.Errorf("statistics without null positions: %w", errs.ErrInvalid)
	}
	for i := range s.zones.start {
		last := i == s.zones.len()-1
		if s.zones.start[i] != uint64(i)*s.rowsPerZone || s.zones.length[i] > s.rowsPerZone || !last && s.zones.length[i] != s.rowsPerZone {
			return nil, fmt.Errorf("zone %d covers %d rows from %d, not a whole file: %w", i, s.zones.length[i], s.zones.start[i], errs.ErrInvalid)
		}
	}
	nulls := ""
	if !s.nulls.IsEmpty() {
		b, err := rowaddr.EncodeBitmap(s.nulls)
		if err != nil {
			return nil, err
		}
		nulls = hex.EncodeToString(b)
	}
	rec := shape{}.record(memory.DefaultAllocator, s.typ, &s.zones)
	defer rec.Release()
	meta := arrow.NewMetadata([]string{seedNullBitmap}, []string{nulls})
	schema := arrow.NewSchema(rec.Schema().Fields(), &meta)
	var out bytes.Buffer
	w, err := ipc.NewFileWriter(&out, ipc.WithSchema(schema))
	if err != nil {
		return nil, err
	}
	if err := w.Write(rec); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// HarvestSeed reads the seed of a column from a data file. ok is false if the file has none that can stand for a scan
// of the column: none at all, of another zone size, of another field that had this path when the file was written, or in
// a form this package does not know. rowsPerZone is the index's, field the column's id. The statistics speak about all
// physical rows of the file. errs.ErrCorruption for a seed that is damaged.
func HarvestSeed(ctx context.Context, r *file.Reader, name, path string, field int32, t arrow.DataType, rowsPerZone uint64) (s *Stats, ok bool, err error) {
	place, ok := r.Schema().Metadata[seedKeyPrefix+path]
	// Why the id: columns may have swapped names since.
	if f := r.Schema().FieldByName(path); !ok || f == nil || f.ID != field {
		return nil, false, nil
	}
	parts := strings.Split(place, ":")
	numbers := make([]uint64, len(parts))
	for i, p := range parts {
		if numbers[i], err = strconv.ParseUint(p, 10, 32); err != nil {
			return nil, false, nil // another form
		}
	}
	if len(numbers) < 2 || len(numbers) > 3 || numbers[1] != rowsPerZone || len(numbers) == 3 && numbers[2] != uint64(field) {
		return nil, false, nil
	}
	b, err := r.Buffer(ctx, uint32(numbers[0]), seedBytesMax)
	if err != nil {
		return nil, false, fmt.Errorf("seed of %q: %w", path, err)
	}
	if s, ok, err = DecodeSeed(name, b, t, rowsPerZone); err != nil || !ok {
		return nil, false, err
	}
	var rows uint64
	for _, n := range s.zones.length {
		rows += n
	}
	if rows != r.Rows() {
		return nil, false, errs.Corrupt(name, -1, "seed of %q covers %d rows of %d", path, rows, r.Rows())
	}
	return s, true, nil
}

// DecodeSeed parses the buffer of a seed; object names its file in errors. ok is false for a form this package does not
// know, seeds of nested columns among them. errs.ErrCorruption if it is damaged.
func DecodeSeed(object string, b []byte, t arrow.DataType, rowsPerZone uint64) (s *Stats, ok bool, err error) {
	if rowsPerZone < 1 || rowsPerZone > rowsPerZoneMax {
		return nil, false, nil
	}
	a, ok, err := openArrow(object, b, t)
	if err != nil || !ok || a.compressed() {
		return nil, false, err
	}
	rec, err := a.record(t)
	if err != nil {
		return nil, false, err
	}
	defer rec.Release()
	s = &Stats{typ: t, rowsPerZone: rowsPerZone, zones: zones{form: formOf(t)}}
	counts := rec
	if s.zones.form == formNone { // their bounds say nothing
		if counts, err = arrowx.Project(rec, arrow.NewSchema(rec.Schema().Fields()[2:], nil), []int{2, 3, 4}); err != nil {
			return nil, false, err
		}
		defer counts.Release()
	}
	if err := (shape{}).decode(object, t, counts, &s.zones); err != nil {
		return nil, false, fmt.Errorf("seed: %w", err)
	}
	if err := s.finishSeed(object, a.meta); err != nil {
		return nil, false, fmt.Errorf("seed: %w", err)
	}
	return s, true, nil
}

// finishSeed takes in the NULLs and checks the zones.
func (s *Stats) finishSeed(object string, meta map[string]string) error {
	if text, ok := meta[seedNullBitmap]; ok && text == "" {
		s.nulls = roaring.New()
	} else if ok {
		b, err := hex.DecodeString(text)
		if err != nil {
			return errs.Corrupt(object, -1, "null bitmap: %v", err)
		}
		if s.nulls, err = rowaddr.DecodeBitmap(object, b); err != nil {
			return err
		}
	}
	var nulls uint64
	for i, n := range s.zones.length {
		if i < s.zones.len()-1 && n != s.rowsPerZone || n > s.rowsPerZone {
			return errs.Corrupt(object, -1, "zone %d has %d rows of %d", i, n, s.rowsPerZone)
		}
		nulls += uint64(s.zones.nulls[i])
	}
	if s.nulls != nil && s.nulls.GetCardinality() != nulls {
		return errs.Corrupt(object, -1, "%d nulls counted, %d placed", nulls, s.nulls.GetCardinality())
	}
	return s.zones.check(object)
}
