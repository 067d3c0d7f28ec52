package schema

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
)

// FromArrow builds a schema with ids in depth-first pre-order from 0. Primary key marks come from the field metadata
// keys. Extension types are stored as their storage type with the extension's name and metadata kept as field
// metadata. errs.ErrUnsupported for types Lance cannot store, errs.ErrInvalid for duplicate names or bad key marks.
// Spec: table format, "Field ids" and "Logical type strings".
func FromArrow(s *arrow.Schema) (*Schema, error) {
	out := &Schema{Metadata: metadataMap(s.Metadata())}
	next := int32(0)
	for _, af := range s.Fields() {
		f, err := fromArrowField(af, &next, 0)
		if err != nil {
			return nil, err
		}
		out.Fields = append(out.Fields, f)
	}
	if err := out.check(); err != nil {
		return nil, err
	}
	if err := out.resolvePrimaryKey(); err != nil {
		return nil, err
	}
	return out, nil
}

func fromArrowField(af arrow.Field, next *int32, depth int) (*Field, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("schema nests deeper than %d levels: %w", maxDepth, errs.ErrLimit)
	}
	f := &Field{ID: *next, Name: af.Name, Nullable: af.Nullable, Metadata: metadataMap(af.Metadata)}
	*next++
	typ := af.Type
	if ext, ok := typ.(arrow.ExtensionType); ok {
		typ = ext.StorageType()
		if f.Metadata == nil {
			f.Metadata = make(map[string]string, 2)
		}
		f.Metadata[KeyExtensionName] = ext.ExtensionName()
		if data := ext.Serialize(); data != "" {
			f.Metadata["ARROW:extension:metadata"] = data
		}
	}
	var err error
	if f.LogicalType, err = LogicalType(typ); err != nil {
		return nil, fmt.Errorf("field %q: %w", af.Name, err)
	}
	for _, c := range childrenOf(typ) {
		child, err := fromArrowField(c, next, depth+1)
		if err != nil {
			return nil, err
		}
		f.Children = append(f.Children, child)
	}
	return f, nil
}

// childrenOf returns the Arrow fields that become child fields of their own.
func childrenOf(t arrow.DataType) []arrow.Field {
	switch t := t.(type) {
	case *arrow.StructType:
		return t.Fields()
	case *arrow.ListType:
		return []arrow.Field{t.ElemField()}
	case *arrow.LargeListType:
		return []arrow.Field{t.ElemField()}
	case *arrow.MapType:
		entries := arrow.Field{Name: "entries", Type: t.Elem()}
		return []arrow.Field{entries}
	}
	return nil
}

// Arrow returns the Arrow form of the schema, all metadata kept.
func (s *Schema) Arrow() (*arrow.Schema, error) { return ArrowSchema(s.Fields, s.Metadata) }

// ArrowSchema returns the Arrow schema of some fields, in the given order; metadata may be nil.
func ArrowSchema(fields []*Field, metadata map[string]string) (*arrow.Schema, error) {
	list, err := arrowFields(fields)
	if err != nil {
		return nil, err
	}
	if len(metadata) == 0 {
		return arrow.NewSchema(list, nil), nil
	}
	md := arrowMetadata(metadata)
	return arrow.NewSchema(list, &md), nil
}

func arrowFields(fields []*Field) ([]arrow.Field, error) {
	out := make([]arrow.Field, 0, len(fields))
	for _, f := range fields {
		af, err := f.ArrowField()
		if err != nil {
			return nil, err
		}
		out = append(out, af)
	}
	return out, nil
}

// ArrowField returns the Arrow field of f with its metadata.
func (f *Field) ArrowField() (arrow.Field, error) {
	typ, err := f.DataType()
	if err != nil {
		return arrow.Field{}, fmt.Errorf("field %q: %w", f.Name, err)
	}
	return arrow.Field{Name: f.Name, Type: typ, Nullable: f.Nullable, Metadata: arrowMetadata(f.Metadata)}, nil
}

func metadataMap(md arrow.Metadata) map[string]string {
	if md.Len() == 0 {
		return nil
	}
	out := make(map[string]string, md.Len())
	for i, k := range md.Keys() {
		out[k] = md.Values()[i]
	}
	return out
}

// arrowMetadata orders the keys, so that equal schemas have equal Arrow forms.
func arrowMetadata(m map[string]string) arrow.Metadata {
	if len(m) == 0 {
		return arrow.Metadata{}
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	values := make([]string, len(keys))
	for i, k := range keys {
		values[i] = m[k]
	}
	return arrow.NewMetadata(keys, values)
}
