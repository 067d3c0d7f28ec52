package zonemap

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"lancesql/internal/errs"
)

// Details is the message ZoneMapIndexDetails of an index entry.
// Spec: zone map index, "Index Details".
type Details struct {
	RowsPerZone   *uint64 // nil: not recorded, no seeds
	UseSeeds      *bool   // nil: no seeds
	HasNullBitmap bool
}

// Seeds reports whether writers of the table leave seeds for the index, and of how many rows per zone.
func (d Details) Seeds() (rowsPerZone uint64, ok bool) {
	if d.RowsPerZone == nil || d.UseSeeds == nil || !*d.UseSeeds || *d.RowsPerZone == 0 || *d.RowsPerZone > rowsPerZoneMax {
		return 0, false
	}
	return *d.RowsPerZone, true
}

// The fields of the message:
//
//	1: rows_per_zone, optional uint64 | 2: use_seeds, optional bool | 3: has_null_bitmap, optional bool
const (
	fieldRowsPerZone   = 1
	fieldUseSeeds      = 2
	fieldHasNullBitmap = 3
)

// Encode serialises the message. A missing null bitmap is written as false.
func (d Details) Encode() []byte {
	var b []byte
	if d.RowsPerZone != nil {
		b = protowire.AppendVarint(protowire.AppendTag(b, fieldRowsPerZone, protowire.VarintType), *d.RowsPerZone)
	}
	if d.UseSeeds != nil {
		b = protowire.AppendVarint(protowire.AppendTag(b, fieldUseSeeds, protowire.VarintType), protowire.EncodeBool(*d.UseSeeds))
	}
	return protowire.AppendVarint(protowire.AppendTag(b, fieldHasNullBitmap, protowire.VarintType), protowire.EncodeBool(d.HasNullBitmap))
}

// DecodeDetails parses the details of an index entry; object names the manifest in errors. Unknown fields are passed
// over. errs.ErrCorruption if the message is damaged.
func DecodeDetails(object string, b []byte) (Details, error) {
	var d Details
	for at := 0; at < len(b); {
		number, typ, n := protowire.ConsumeTag(b[at:])
		if n < 0 {
			return Details{}, fmt.Errorf("zone map details: %w", errs.Corrupt(object, -1, "byte %d: %v", at, protowire.ParseError(n)))
		}
		at += n
		n = protowire.ConsumeFieldValue(number, typ, b[at:])
		if n < 0 {
			return Details{}, fmt.Errorf("zone map details: %w", errs.Corrupt(object, -1, "byte %d: %v", at, protowire.ParseError(n)))
		}
		if typ == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(b[at:])
			on := v != 0
			switch number {
			case fieldRowsPerZone:
				d.RowsPerZone = &v
			case fieldUseSeeds:
				d.UseSeeds = &on
			case fieldHasNullBitmap:
				d.HasNullBitmap = on
			}
		}
		at += n
	}
	return d, nil
}
