package schema

import (
	"fmt"
	"sort"

	"lancesql/internal/errs"
)

// Metadata keys with a meaning of their own.
const (
	KeyPrimaryKey         = "lance-schema:unenforced-primary-key"
	KeyPrimaryKeyPosition = "lance-schema:unenforced-primary-key:position"
	KeyClusteringPosition = "lance-schema:unenforced-clustering-key:position"
	KeyExtensionName      = "ARROW:extension:name"
	KeyPacked             = "lance-encoding:packed"
	KeyPackedShort        = "packed"
	KeyBlob               = "lance-encoding:blob"
)

const (
	extensionBlobV2 = "lance.blob.v2"
	maxDepth        = 64 // nesting levels of a field tree; a limit against hostile schemas
)

// Field is one node of the schema tree. All members are read-only after construction.
type Field struct {
	ID          int32  // unique in the schema and over the table's history; >= 0
	Name        string // name among its siblings
	LogicalType string // Lance logical type, e.g. "int64", "decimal:128:10:2"; see DataType
	Nullable    bool
	Metadata    map[string]string // Arrow field metadata; may be nil
	PKPosition  uint32            // 1-based position in the primary key, 0 = not part of it
	Children    []*Field          // struct members, the item of a list, the entries of a map
	Unknown     []byte            // protobuf fields this version does not know, carried along
}

// Schema is an ordered list of top-level fields.
type Schema struct {
	Fields   []*Field
	Metadata map[string]string // schema-level metadata; may be nil
}

// FieldByName returns the top-level field of that exact name, or nil.
func (s *Schema) FieldByName(name string) *Field {
	for _, f := range s.Fields {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// FieldByID returns the field of that id at any depth, or nil.
func (s *Schema) FieldByID(id int32) *Field {
	var found *Field
	s.Walk(func(f *Field) {
		if f.ID == id {
			found = f
		}
	})
	return found
}

// MaxID returns the greatest field id at any depth, -1 for a schema without fields.
func (s *Schema) MaxID() int32 {
	last := int32(-1)
	s.Walk(func(f *Field) { last = max(last, f.ID) })
	return last
}

// Walk visits every field, parents before children, in schema order.
func (s *Schema) Walk(visit func(*Field)) {
	for _, f := range s.Fields {
		f.Walk(visit)
	}
}

// Walk visits f and its descendants, parents before children.
func (f *Field) Walk(visit func(*Field)) {
	visit(f)
	for _, c := range f.Children {
		c.Walk(visit)
	}
}

// PrimaryKey returns the primary key fields in key order; nil if the schema has none.
func (s *Schema) PrimaryKey() []*Field {
	var key []*Field
	s.Walk(func(f *Field) {
		if f.PKPosition > 0 {
			key = append(key, f)
		}
	})
	sort.SliceStable(key, func(i, j int) bool { return key[i].PKPosition < key[j].PKPosition })
	return key
}

// Leaves returns the fields below f (or of the whole schema if f is nil) that own a physical column in data files
// 2.1 and later, in column order. Structs, lists and maps own none; fixed-size lists of primitives, packed structs,
// blob v2 structs and empty structs own one.
// Spec: file format, "Fields and columns".
func (s *Schema) Leaves(f *Field) []*Field {
	var out []*Field
	if f != nil {
		return appendLeaves(out, f)
	}
	for _, f := range s.Fields {
		out = appendLeaves(out, f)
	}
	return out
}

func appendLeaves(out []*Field, f *Field) []*Field {
	if f.OwnsColumn() {
		return append(out, f)
	}
	for _, c := range f.Children {
		out = appendLeaves(out, c)
	}
	return out
}

// OwnsColumn reports whether f has a physical column of its own in data files 2.1 and later.
func (f *Field) OwnsColumn() bool { return len(f.Children) == 0 || f.Packed() || f.BlobV2() }

// Packed reports whether f is a struct stored row by row in a single column.
func (f *Field) Packed() bool {
	return f.LogicalType == "struct" && (f.Metadata[KeyPacked] == "true" || f.Metadata[KeyPackedShort] == "true")
}

// BlobV2 reports whether f is a column of blobs, version 2: by its extension name in manifests, by the old mark of blobs
// in data files. Its values in data files are descriptors (BlobDescriptor),
// whatever its members are.
func (f *Field) BlobV2() bool {
	return f.LogicalType == "struct" && (f.Metadata[KeyExtensionName] == extensionBlobV2 || f.Metadata[KeyBlob] == "true")
}

// check establishes invariant 1 and the depth limit.
func (s *Schema) check() error {
	seen := make(map[int32]struct{})
	var walk func(fields []*Field, depth int, anonymous bool) error
	walk = func(fields []*Field, depth int, anonymous bool) error {
		if depth > maxDepth {
			return fmt.Errorf("schema nests deeper than %d levels: %w", maxDepth, errs.ErrLimit)
		}
		names := make(map[string]struct{}, len(fields))
		for _, f := range fields {
			if _, dup := seen[f.ID]; (dup || f.ID < 0) && !(anonymous && f.ID == -1) {
				return fmt.Errorf("field %q has id %d twice or negative: %w", f.Name, f.ID, errs.ErrInvalid)
			}
			seen[f.ID] = struct{}{}
			if _, dup := names[f.Name]; dup {
				return fmt.Errorf("field %q appears twice: %w", f.Name, errs.ErrInvalid)
			}
			names[f.Name] = struct{}{}
			if err := walk(f.Children, depth+1, f.BlobV2()); err != nil {
				return err
			}
		}
		return nil
	}
	return walk(s.Fields, 0, false)
}
