// Package schema is the field tree of a Lance table: field ids, logical types, primary key marks, and the
// translation to and from Arrow schemas and the protobuf field list.
//
// Purpose: give every field its stable id and its logical type string, and keep what the format carries along with it.
// It is the only place that parses logical type strings.
//
// Place in the dataflow: the table layer loads it from manifests; the file layer loads it from file descriptors and
// derives physical columns from it; upper layers see only its Arrow form.
//
// Invariants:
//  1. Ids are unique in a schema; FromProto and FromArrow refuse anything else.
//  2. FromProto(ToProto(s)) is s, including unknown protobuf fields.
//  3. PKPosition is set exactly for the primary key fields, distinct, and agrees with the metadata keys.
//  4. A Schema is immutable once built; sharing it between goroutines is safe.
//
// Does not know: pages, columns' encodings, fragments, SQL types.
//
// Format: docs/format/file.md, "Schema" and the table format notes on fields.
package schema
