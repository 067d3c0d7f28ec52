package schema

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
)

// plainTypes are the logical types without parameters, both directions.
var plainTypes = []struct {
	name string
	typ  arrow.DataType
}{
	{"null", arrow.Null},
	{"bool", arrow.FixedWidthTypes.Boolean},
	{"int8", arrow.PrimitiveTypes.Int8},
	{"int16", arrow.PrimitiveTypes.Int16},
	{"int32", arrow.PrimitiveTypes.Int32},
	{"int64", arrow.PrimitiveTypes.Int64},
	{"uint8", arrow.PrimitiveTypes.Uint8},
	{"uint16", arrow.PrimitiveTypes.Uint16},
	{"uint32", arrow.PrimitiveTypes.Uint32},
	{"uint64", arrow.PrimitiveTypes.Uint64},
	{"halffloat", arrow.FixedWidthTypes.Float16},
	{"float", arrow.PrimitiveTypes.Float32},
	{"double", arrow.PrimitiveTypes.Float64},
	{"string", arrow.BinaryTypes.String},
	{"large_string", arrow.BinaryTypes.LargeString},
	{"binary", arrow.BinaryTypes.Binary},
	{"large_binary", arrow.BinaryTypes.LargeBinary},
	{"json", arrow.BinaryTypes.LargeBinary}, // stored as JSONB bytes
	{"date32:day", arrow.FixedWidthTypes.Date32},
	{"date64:ms", arrow.FixedWidthTypes.Date64},
	{"time32:s", arrow.FixedWidthTypes.Time32s},
	{"time32:ms", arrow.FixedWidthTypes.Time32ms},
	{"time64:us", arrow.FixedWidthTypes.Time64us},
	{"time64:ns", arrow.FixedWidthTypes.Time64ns},
	{"duration:s", arrow.FixedWidthTypes.Duration_s},
	{"duration:ms", arrow.FixedWidthTypes.Duration_ms},
	{"duration:us", arrow.FixedWidthTypes.Duration_us},
	{"duration:ns", arrow.FixedWidthTypes.Duration_ns},
}

// units are the time units in logical type strings, indexed by arrow.TimeUnit.
var units = [...]string{arrow.Second: "s", arrow.Millisecond: "ms", arrow.Microsecond: "us", arrow.Nanosecond: "ns"}

// maxFixedListSize bounds the size parameter of fixed-size types read from storage.
const maxFixedListSize = 1 << 28

// LogicalType returns the Lance logical type string of an Arrow type. Children are not part of it, except the item of
// a fixed-size list of primitives. errs.ErrUnsupported if Lance cannot store the type.
// Spec: table format, "Logical type strings".
func LogicalType(t arrow.DataType) (string, error) {
	for _, p := range plainTypes {
		if p.typ.ID() == t.ID() && arrow.TypeEqual(p.typ, t) {
			return p.name, nil
		}
	}
	switch t := t.(type) {
	case *arrow.Decimal128Type:
		return fmt.Sprintf("decimal:128:%d:%d", t.Precision, t.Scale), nil
	case *arrow.Decimal256Type:
		return fmt.Sprintf("decimal:256:%d:%d", t.Precision, t.Scale), nil
	case *arrow.FixedSizeBinaryType:
		return fmt.Sprintf("fixed_size_binary:%d", t.ByteWidth), nil
	case *arrow.TimestampType:
		zone := t.TimeZone
		if strings.Contains(zone, ":") {
			return "", fmt.Errorf("time zone %q contains a colon: %w", zone, errs.ErrUnsupported)
		}
		if zone == "" {
			zone = "-"
		}
		return "timestamp:" + units[t.Unit] + ":" + zone, nil
	case *arrow.FixedSizeListType:
		item, err := LogicalType(t.Elem())
		if err != nil {
			return "", err
		}
		if !listable(t.Elem()) {
			return "", fmt.Errorf("fixed-size list of %s: %w", t.Elem(), errs.ErrUnsupported)
		}
		return fmt.Sprintf("fixed_size_list:%s:%d", item, t.Len()), nil
	case *arrow.ListType:
		return listName("list", t.Elem()), nil
	case *arrow.LargeListType:
		return listName("large_list", t.Elem()), nil
	case *arrow.StructType:
		return "struct", nil
	case *arrow.MapType:
		return "map", nil
	case *arrow.DictionaryType:
		value, err := LogicalType(t.ValueType)
		if err != nil {
			return "", err
		}
		key, err := LogicalType(t.IndexType)
		if err != nil {
			return "", err
		}
		return "dict:" + value + ":" + key + ":false", nil
	}
	return "", fmt.Errorf("arrow type %s: %w", t, errs.ErrUnsupported)
}

// listable reports whether t may be the item of a fixed-size list stored in one column.
func listable(t arrow.DataType) bool {
	if l, ok := t.(*arrow.FixedSizeListType); ok {
		return listable(l.Elem())
	}
	_, fixed := t.(arrow.FixedWidthDataType)
	return fixed && t.ID() != arrow.DICTIONARY && t.ID() != arrow.EXTENSION
}

func listName(name string, item arrow.DataType) string {
	if item.ID() == arrow.STRUCT {
		return name + ".struct"
	}
	return name
}

// DataType returns the Arrow type of f. errs.ErrUnsupported for unknown logical types, errs.ErrInvalid for malformed
// parameters or missing children.
func (f *Field) DataType() (arrow.DataType, error) {
	switch f.LogicalType {
	case "struct":
		if f.BlobV2() {
			return BlobDescriptor(), nil
		}
		children, err := arrowFields(f.Children)
		if err != nil {
			return nil, err
		}
		return arrow.StructOf(children...), nil
	case "list", "list.struct", "large_list", "large_list.struct":
		item, err := f.onlyChild()
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(f.LogicalType, "large") {
			return arrow.LargeListOfField(item), nil
		}
		return arrow.ListOfField(item), nil
	case "map":
		entries, err := f.onlyChild()
		if err != nil {
			return nil, err
		}
		st, ok := entries.Type.(*arrow.StructType)
		if !ok || st.NumFields() != 2 {
			return nil, fmt.Errorf("map %q without a struct of key and value: %w", f.Name, errs.ErrInvalid)
		}
		key := st.Field(0)
		key.Nullable = false // the format demands it, and Arrow panics otherwise
		return arrow.MapOfFields(key, st.Field(1)), nil
	}
	if digits, ok := strings.CutPrefix(f.LogicalType, structListPrefix); ok {
		item, err := f.onlyChild()
		if err != nil {
			return nil, err
		}
		n, err := parseSize(f.LogicalType, digits)
		if err != nil {
			return nil, err
		}
		return arrow.FixedSizeListOfField(int32(n), item), nil
	}
	return ParseLogicalType(f.LogicalType)
}

// BlobDescriptor is the type that blob v2 columns are read as, like the reference does: where a blob lies. kind is 0 in
// the data file, 1 in a side file with others, 2 in one of its own, 3 at a URI, 4 managed by the table.
// Spec: table format, "Blob v2 columns".
func BlobDescriptor() *arrow.StructType {
	return arrow.StructOf(
		arrow.Field{Name: "kind", Type: arrow.PrimitiveTypes.Uint8},
		arrow.Field{Name: "position", Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: "size", Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: "blob_id", Type: arrow.PrimitiveTypes.Uint32},
		arrow.Field{Name: "blob_uri", Type: arrow.BinaryTypes.String},
	)
}

// structListPrefix begins the logical type of fixed-size lists of structs, the only ones with a child field.
const structListPrefix = "fixed_size_list:struct:"

func (f *Field) onlyChild() (arrow.Field, error) {
	if len(f.Children) != 1 {
		return arrow.Field{}, fmt.Errorf("%s %q has %d children: %w", f.LogicalType, f.Name, len(f.Children), errs.ErrInvalid)
	}
	return f.Children[0].ArrowField()
}

// ParseLogicalType returns the Arrow type of a logical type that has no child fields.
func ParseLogicalType(s string) (arrow.DataType, error) { return parseType(s, 0) }

func parseType(s string, depth int) (arrow.DataType, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("logical type nests deeper than %d: %w", maxDepth, errs.ErrLimit)
	}
	for _, p := range plainTypes {
		if p.name == s {
			return p.typ, nil
		}
	}
	head, rest, _ := strings.Cut(s, ":")
	switch head {
	case "decimal":
		return parseDecimal(s, rest)
	case "fixed_size_binary":
		n, err := parseSize(s, rest)
		if err != nil {
			return nil, err
		}
		return &arrow.FixedSizeBinaryType{ByteWidth: n}, nil
	case "timestamp":
		unit, zone, ok := strings.Cut(rest, ":")
		if zone == "-" {
			zone = ""
		}
		for u, name := range units {
			if ok && name == unit && !strings.Contains(zone, ":") {
				return &arrow.TimestampType{Unit: arrow.TimeUnit(u), TimeZone: zone}, nil
			}
		}
		return nil, fmt.Errorf("logical type %q: %w", s, errs.ErrInvalid)
	case "fixed_size_list":
		cut := strings.LastIndexByte(rest, ':')
		if cut < 0 {
			return nil, fmt.Errorf("logical type %q: %w", s, errs.ErrInvalid)
		}
		n, err := parseSize(s, rest[cut+1:])
		if err != nil {
			return nil, err
		}
		item, err := parseType(rest[:cut], depth+1)
		if err != nil {
			return nil, err
		}
		if !listable(item) {
			return nil, fmt.Errorf("logical type %q: %w", s, errs.ErrUnsupported)
		}
		return arrow.FixedSizeListOf(int32(n), item), nil
	case "dict":
		return parseDict(s, rest, depth)
	}
	return nil, fmt.Errorf("logical type %q: %w", s, errs.ErrUnsupported)
}

func parseSize(s, digits string) (int, error) {
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n == 0 || n > maxFixedListSize {
		return 0, fmt.Errorf("logical type %q: bad size: %w", s, errs.ErrInvalid)
	}
	return int(n), nil
}

func parseDecimal(s, rest string) (arrow.DataType, error) {
	parts := strings.Split(rest, ":")
	if len(parts) != 3 {
		return nil, fmt.Errorf("logical type %q: %w", s, errs.ErrInvalid)
	}
	precision, err1 := strconv.ParseInt(parts[1], 10, 16)
	scale, err2 := strconv.ParseInt(parts[2], 10, 16)
	if err1 != nil || err2 != nil || precision < 1 {
		return nil, fmt.Errorf("logical type %q: %w", s, errs.ErrInvalid)
	}
	switch {
	case parts[0] == "128" && precision <= 38:
		return &arrow.Decimal128Type{Precision: int32(precision), Scale: int32(scale)}, nil
	case parts[0] == "256" && precision <= 76:
		return &arrow.Decimal256Type{Precision: int32(precision), Scale: int32(scale)}, nil
	}
	return nil, fmt.Errorf("logical type %q: %w", s, errs.ErrInvalid)
}

// parseDict reads "<value>:<key>:<ordered>" from the right, because value types contain colons themselves.
func parseDict(s, rest string, depth int) (arrow.DataType, error) {
	bad := fmt.Errorf("logical type %q: %w", s, errs.ErrInvalid)
	cut := strings.LastIndexByte(rest, ':')
	if cut < 0 {
		return nil, bad
	}
	rest = rest[:cut]
	cut = strings.LastIndexByte(rest, ':')
	if cut < 0 {
		return nil, bad
	}
	value, err := parseType(rest[:cut], depth+1)
	if err != nil {
		return nil, err
	}
	key, err := parseType(rest[cut+1:], depth+1)
	if err != nil {
		return nil, err
	}
	if !arrow.IsInteger(key.ID()) {
		return nil, bad
	}
	return &arrow.DictionaryType{IndexType: key, ValueType: value}, nil
}
