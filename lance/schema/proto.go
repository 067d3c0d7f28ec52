package schema

import (
	"fmt"
	"strings"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// ToProto returns the field list in depth-first pre-order, as manifests and file descriptors hold it. Primary key
// fields carry both the metadata keys and protobuf fields 12 and 13.
// Spec: table format, "Field"; file format, "File descriptor".
func (s *Schema) ToProto() []*pb.Field {
	var out []*pb.Field
	for _, f := range s.Fields {
		out = f.appendProto(out, -1)
	}
	return out
}

func (f *Field) appendProto(out []*pb.Field, parent int32) []*pb.Field {
	p := &pb.Field{
		Name:          f.Name,
		Id:            f.ID,
		ParentId:      parent,
		LogicalType:   f.LogicalType,
		Nullable:      f.Nullable,
		Encoding:      encodingHint(f.LogicalType),
		ExtensionName: f.Metadata[KeyExtensionName],
	}
	if len(f.Metadata) > 0 {
		p.Metadata = make(map[string][]byte, len(f.Metadata))
		for k, v := range f.Metadata {
			p.Metadata[k] = []byte(v)
		}
	}
	if f.PKPosition > 0 {
		p.UnenforcedPrimaryKey = true
		if _, ok := f.Metadata[KeyPrimaryKeyPosition]; ok {
			p.UnenforcedPrimaryKeyPosition = f.PKPosition
		}
	}
	if v, ok := f.Metadata[KeyClusteringPosition]; ok {
		if n, err := parsePosition(v); err == nil {
			p.UnenforcedClusteringKeyPosition = n
		}
	}
	if len(f.Unknown) > 0 {
		p.ProtoReflect().SetUnknown(f.Unknown)
	}
	out = append(out, p)
	for _, c := range f.Children {
		out = c.appendProto(out, f.ID)
	}
	return out
}

// encodingHint is the legacy field encoding that Lance writes; readers ignore it.
func encodingHint(logicalType string) pb.FieldEncoding {
	switch {
	case logicalType == "struct" || logicalType == "null":
		return pb.FieldEncoding_NONE
	case strings.HasPrefix(logicalType, "dict:"):
		return pb.FieldEncoding_DICTIONARY
	}
	switch logicalType {
	case "string", "large_string", "binary", "large_binary", "json":
		return pb.FieldEncoding_VAR_BINARY
	}
	return pb.FieldEncoding_PLAIN
}

// FromProto builds a schema from a field list (parents before children, any other order) and schema metadata.
// errs.ErrInvalid for duplicate ids or names, unknown parents or bad key marks. In data files the members of a blob v2
// column have no ids (-1) and no parent, and follow it. Logical types are not checked here:
// DataType does, so that a schema with an unreadable column can still be opened.
func FromProto(fields []*pb.Field, metadata map[string][]byte) (*Schema, error) {
	s := &Schema{Metadata: stringMap(metadata)}
	byID := make(map[int32]*Field, len(fields))
	var last *Field // that has an id
	for _, p := range fields {
		f := &Field{
			ID:          p.GetId(),
			Name:        p.GetName(),
			LogicalType: p.GetLogicalType(),
			Nullable:    p.GetNullable(),
			Metadata:    stringMap(p.GetMetadata()),
			Unknown:     p.ProtoReflect().GetUnknown(),
		}
		keepMarks(f, p)
		if f.ID == -1 && last != nil && last.BlobV2() {
			last.Children = append(last.Children, f)
			continue
		}
		last = f
		if p.GetParentId() < 0 {
			s.Fields = append(s.Fields, f)
		} else {
			parent := byID[p.GetParentId()]
			if parent == nil {
				return nil, fmt.Errorf("field %q has unknown parent %d: %w", f.Name, p.GetParentId(), errs.ErrInvalid)
			}
			parent.Children = append(parent.Children, f)
		}
		if byID[f.ID] != nil {
			return nil, fmt.Errorf("field id %d appears twice: %w", f.ID, errs.ErrInvalid)
		}
		byID[f.ID] = f
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	if err := s.resolvePrimaryKey(); err != nil {
		return nil, err
	}
	return s, nil
}

// keepMarks makes the metadata agree with protobuf marks that have no metadata key beside them, so that the Arrow
// form of the schema carries the primary key and the extension name.
func keepMarks(f *Field, p *pb.Field) {
	set := func(key, value string) {
		if _, ok := f.Metadata[key]; ok {
			return
		}
		if f.Metadata == nil {
			f.Metadata = make(map[string]string, 2)
		}
		f.Metadata[key] = value
	}
	if p.GetUnenforcedPrimaryKey() {
		if n := p.GetUnenforcedPrimaryKeyPosition(); n > 0 {
			set(KeyPrimaryKeyPosition, fmt.Sprint(n))
		} else if _, ok := f.Metadata[KeyPrimaryKeyPosition]; !ok {
			set(KeyPrimaryKey, "true")
		}
	}
	if n := p.GetUnenforcedClusteringKeyPosition(); n > 0 {
		set(KeyClusteringPosition, fmt.Sprint(n))
	}
	if name := p.GetExtensionName(); name != "" {
		set(KeyExtensionName, name)
	}
}

func stringMap(m map[string][]byte) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = string(v)
	}
	return out
}
