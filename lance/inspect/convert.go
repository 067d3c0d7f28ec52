package inspect

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"lancesql/lance/file"
	"lancesql/lance/schema"
	"lancesql/lance/table"
)

// fields converts a schema; nil gives none.
func fields(list []*schema.Field) []Field {
	out := make([]Field, 0, len(list))
	for _, f := range list {
		c := Field{ID: f.ID, Name: f.Name, Type: f.LogicalType, Nullable: f.Nullable, PrimaryKey: f.PKPosition, Metadata: f.Metadata}
		if len(f.Children) > 0 {
			c.Children = fields(f.Children)
		}
		out = append(out, c)
	}
	return out
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// manifestOf converts a description; object names of it are relative to the table's root.
func manifestOf(d *table.ManifestDescription) *Manifest {
	m := &Manifest{
		Version: d.Version, Timestamp: timeText(d.Timestamp), Writer: d.Writer, FileFormat: d.FileFormat, DataVersion: d.DataVersion,
		ReaderFlags: Flags{d.ReaderFlags, table.FlagNames(d.ReaderFlags)}, WriterFlags: Flags{d.WriterFlags, table.FlagNames(d.WriterFlags)},
		MaxFragmentID: d.MaxFragmentID, NextRowID: d.NextRowID, Tag: d.Tag, Branch: d.Branch, TransactionFile: d.TransactionFile,
		Size: d.Size, Schema: []Field{}, TableMetadata: d.TableMetadata, Config: d.Config, UnknownFields: d.UnknownFields,
		Fragments: []Fragment{},
	}
	for _, s := range d.Sections {
		m.Sections = append(m.Sections, Section(s))
	}
	slices.SortFunc(m.Sections, func(a, b Section) int { return int(a.Offset - b.Offset) })
	if d.Transaction != nil {
		m.Inline = transactionOf("", d.Transaction)
	}
	if d.Schema != nil {
		m.Schema, m.SchemaMetadata = fields(d.Schema.Fields), d.Schema.Metadata
	}
	for _, p := range d.BasePaths {
		m.BasePaths = append(m.BasePaths, BasePath{p.ID, p.Name, p.Path, p.DatasetRoot})
	}
	for _, f := range d.Fragments {
		m.Fragments = append(m.Fragments, fragmentOf(f))
		m.Rows += f.LiveRows()
		m.PhysicalRows += f.PhysicalRows
		for _, df := range f.Files {
			m.DataBytes += df.Size
		}
	}
	for _, e := range d.Indexes {
		if e.MemWAL != nil {
			m.MemWAL = memWALOf(e.MemWAL)
			continue
		}
		m.Indexes = append(m.Indexes, indexOf(e, d.Fragments))
	}
	return m
}

func fragmentOf(f *table.Fragment) Fragment {
	out := Fragment{ID: f.ID, PhysicalRows: f.PhysicalRows, DeletedRows: f.DeletedRows, Files: []DataFile{}}
	if d := f.Deletion; d != nil {
		out.Deletions = &Deletions{Path: f.DeletionPath(), Encoding: deletionText(d.Kind), ReadVersion: d.ReadVersion, Rows: d.Rows, Base: d.BaseID}
	}
	for _, df := range f.Files {
		out.Files = append(out.Files, DataFile{
			Path: df.ObjectPath(), Version: fmt.Sprintf("%d.%d", df.Major, df.Minor), Size: df.Size,
			Fields: df.Fields, Columns: df.Columns, Base: df.BaseID,
		})
	}
	return out
}

func deletionText(k table.DeletionKind) string {
	if k == table.DeletionBitmap {
		return "bitmap"
	}
	return "array"
}

// indexOf converts an entry of the index section.
func indexOf(e table.IndexEntry, fragments []*table.Fragment) Index {
	out := Index{
		Name: e.Name, UUID: e.UUID.String(), Kind: indexKind(e.DetailsType), IndexVersion: e.Version, Fields: e.Fields,
		CoveringFields: e.CoveringFields, BuiltFrom: e.DatasetVersion, CreatedAt: timeText(e.CreatedAt), Base: e.BaseID,
		Fragments: []uint64{},
	}
	for _, f := range e.Files {
		out.Files = append(out.Files, IndexFile(f))
	}
	if e.Fragments == nil {
		return out
	}
	for _, f := range fragments {
		if e.Fragments.Contains(uint32(f.ID)) {
			out.Fragments = append(out.Fragments, f.ID)
		} else {
			out.Uncovered = append(out.Uncovered, f.ID)
		}
	}
	if n := e.Fragments.GetCardinality(); n > uint64(len(out.Fragments)) {
		out.Gone = n - uint64(len(out.Fragments))
	}
	return out
}

// indexKind shortens a type URL: "/lance.table.BTreeIndexDetails" is BTree.
func indexKind(url string) string {
	name := path.Base(url)
	name = name[strings.LastIndexByte(name, '.')+1:]
	if url == "" {
		return "unknown"
	}
	return strings.TrimSuffix(name, "IndexDetails")
}

func transactionOf(name string, t *table.TransactionDescription) *Transaction {
	out := &Transaction{
		File: name, ReadVersion: t.ReadVersion, UUID: t.UUID, Operation: t.Operation, Merged: mergedOf(t.Merged),
		Predicate: t.Predicate, Properties: t.Properties,
	}
	for _, e := range t.Effects {
		out.Effects = append(out.Effects, Effect(e))
	}
	return out
}

func mergedOf(list []table.MergedGeneration) []MergedGeneration {
	var out []MergedGeneration
	for _, g := range list {
		out = append(out, MergedGeneration{g.Shard.String(), g.Generation})
	}
	return out
}

func memWALOf(m *table.MemWAL) *MemWAL {
	out := &MemWAL{
		NumShards: m.NumShards, ShardingSpecs: []ShardingSpec{}, Merged: append([]MergedGeneration{}, mergedOf(m.Merged)...),
		MaintainedIndexes: m.MaintainedIndexes, MaintainAll: m.MaintainAll, WriterDefaults: m.WriterDefaults, InlineSnapshots: len(m.InlineSnapshots),
	}
	for _, s := range m.Specs {
		spec := ShardingSpec{ID: s.ID, Fields: []ShardingField{}}
		for _, f := range s.Fields {
			spec.Fields = append(spec.Fields, ShardingField{f.FieldID, f.SourceIDs, f.Transform, f.Expression, f.ResultType, f.Parameters})
		}
		out.ShardingSpecs = append(out.ShardingSpecs, spec)
	}
	for _, c := range m.Catchup {
		out.Catchup = append(out.Catchup, IndexCatchup{c.Index, mergedOf(c.CaughtUp)})
	}
	return out
}

// fileOf converts the description of a data file.
func fileOf(d *file.Description) *File {
	out := &File{Size: d.Size, Rows: d.Rows, Footer: fmt.Sprintf("%d.%d", d.Major, d.Minor), GlobalBuffers: buffers(d.Globals), Columns: []Column{}}
	out.Version = out.Footer
	if d.Version != (file.Version{}) {
		out.Version = d.Version.String()
	}
	for i := range d.Columns {
		out.Columns = append(out.Columns, columnOf(i, &d.Columns[i]))
	}
	return out
}

func columnOf(index int, c *file.ColumnDescription) Column {
	out := Column{Index: index, Field: c.Field, Encoding: c.Encoding, Rows: c.Rows(), Bytes: c.Bytes(), Pages: make([]Page, 0, len(c.Pages))}
	if c.FieldID >= 0 {
		id := c.FieldID
		out.FieldID = &id
	}
	if len(c.Buffers) > 0 {
		out.Buffers = buffers(c.Buffers)
	}
	for _, p := range c.Pages {
		page := Page{
			Rows: p.Rows, FirstRow: p.Priority, Layout: p.Layout, Levels: p.Levels, Items: p.Items, Chunks: p.Chunks,
			Encodings: make(map[string]string, len(p.Encodings)), Buffers: buffers(p.Buffers),
		}
		for _, e := range p.Encodings {
			page.Encodings[e.Part] = e.Encoding
		}
		out.Pages = append(out.Pages, page)
	}
	return out
}

func buffers(list []file.Region) []Buffer {
	out := make([]Buffer, 0, len(list))
	for _, b := range list {
		out = append(out, Buffer{b.Role, b.Position, b.Size})
	}
	return out
}
