package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// WriteJSON writes the JSON form, indented, with a final line feed.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the form for people.
func (r *Report) WriteText(w io.Writer) error {
	p := &printer{}
	p.line("%s %s", r.Kind, plain(r.Path))
	switch {
	case r.Dataset != nil:
		p.dataset(r.Dataset)
	case r.DataFile != nil:
		p.dataFile(r.DataFile)
	case r.Manifest != nil:
		p.manifest(r.Manifest, nil)
	case r.Transaction != nil:
		p.transaction(r.Transaction)
	case r.Deletions != nil:
		p.pairs([][2]string{{"encoding", r.Deletions.Encoding}, {"deleted rows", count(r.Deletions.Rows)}})
	case r.WALEntry != nil:
		p.walEntry(r.WALEntry)
	case r.ShardManifest != nil:
		p.shardManifest(r.ShardManifest)
	case r.DataDirectory != nil:
		p.dataDirectory(r.DataDirectory)
	}
	if len(r.Problems) > 0 {
		p.heading("problems")
		for _, x := range r.Problems {
			p.line("  %s", plain(x.Message))
		}
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

func (p *printer) dataset(d *Dataset) {
	p.manifest(&d.Manifest, d.Versions)
	if len(d.Tags) > 0 {
		p.refs("tags", d.Tags)
	}
	if len(d.Branches) > 0 {
		p.refs("branches", d.Branches)
	}
	if len(d.Transactions) > 0 {
		p.heading("transactions")
		g := &grid{indent: "  ", right: []int{0}, rows: [][]string{{"read version", "operation", "what", "file"}}}
		for i := range d.Transactions {
			t := &d.Transactions[i]
			g.add(count(t.ReadVersion), plain(t.Operation), effects(t), plain(t.File))
		}
		p.grid(g)
	}
	for i := range d.Shards {
		p.shard(&d.Shards[i])
	}
}

func (p *printer) refs(what string, list []Ref) {
	p.heading(what)
	g := &grid{indent: "  ", right: []int{1}, rows: [][]string{{"name", "version"}}}
	for _, r := range list {
		g.add(plain(r.Name), count(r.Version))
	}
	p.grid(g)
}

// manifest prints a version; kept lists the versions beside it, nil if they were not looked at.
func (p *printer) manifest(m *Manifest, kept []uint64) {
	version := count(m.Version)
	if kept != nil {
		version += ", kept " + ranges(kept)
	}
	files := 0
	for i := range m.Fragments {
		files += len(m.Fragments[i].Files)
	}
	rows := [][2]string{
		{"version", version}, {"written", written(m)}, {"branch", plain(m.Branch)}, {"tag", plain(m.Tag)},
		{"data files", strings.TrimSpace(plain(m.FileFormat) + " " + plain(m.DataVersion))},
		{"reader flags", flags(m.ReaderFlags)}, {"writer flags", flags(m.WriterFlags)},
		{"rows", fmt.Sprintf("%d live, %d stored, %d deleted", m.Rows, m.PhysicalRows, m.PhysicalRows-m.Rows)},
		{"fragments", fmt.Sprintf("%d%s", len(m.Fragments), optional(m.MaxFragmentID, ", highest id %d"))},
		{"size", fmt.Sprintf("%d bytes in %d data files, manifest %d bytes", m.DataBytes, files, m.Size)},
		{"sections", sections(m.Sections)}, {"transaction", inline(m)},
	}
	if m.NextRowID > 0 {
		rows = append(rows, [2]string{"next row id", count(m.NextRowID)})
	}
	if len(m.UnknownFields) > 0 {
		rows = append(rows, [2]string{"unknown fields", numbers(m.UnknownFields)})
	}
	p.pairs(rows)
	p.schema(m.Schema)
	p.strings("schema metadata", m.SchemaMetadata)
	p.strings("table metadata", m.TableMetadata)
	p.strings("config", m.Config)
	if len(m.BasePaths) > 0 {
		p.heading("base paths")
		g := &grid{indent: "  ", right: []int{0}, rows: [][]string{{"id", "name", "dataset root", "path"}}}
		for _, b := range m.BasePaths {
			g.add(count(uint64(b.ID)), plain(b.Name), yes(b.DatasetRoot), plain(b.Path))
		}
		p.grid(g)
	}
	for i := range m.Fragments {
		p.fragment(&m.Fragments[i])
	}
	p.indexes(m.Indexes)
	if m.MemWAL != nil {
		p.memWAL(m.MemWAL)
	}
}

func written(m *Manifest) string {
	text := m.Timestamp
	if text == "" {
		text = "at an unknown time"
	}
	if m.Writer != "" {
		text += " by " + plain(m.Writer)
	}
	return text
}

func flags(f Flags) string {
	if f.Word == 0 {
		return "none"
	}
	return strings.Join(f.Names, ", ")
}

func sections(list []Section) string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%s %d+%d", s.Name, s.Offset, s.Size))
	}
	return strings.Join(out, ", ")
}

func inline(m *Manifest) string {
	var out []string
	if m.Inline != nil {
		out = append(out, plain(m.Inline.Operation)+" on version "+count(m.Inline.ReadVersion))
	}
	if m.TransactionFile != "" {
		out = append(out, plain(m.TransactionFile))
	}
	return strings.Join(out, ", ")
}

func (p *printer) schema(list []Field) {
	p.heading("schema")
	g := &grid{indent: "  ", right: []int{0}, rows: [][]string{{"id", "name", "type", "null", "key", "metadata"}}}
	var walk func(list []Field, indent string)
	walk = func(list []Field, indent string) {
		for _, f := range list {
			key := ""
			if f.PrimaryKey > 0 {
				key = count(uint64(f.PrimaryKey))
			}
			var meta []string
			for _, k := range sorted(f.Metadata) {
				meta = append(meta, plain(k)+"="+short(f.Metadata[k]))
			}
			g.add(fmt.Sprint(f.ID), indent+plain(f.Name), plain(f.Type), yes(f.Nullable), key, strings.Join(meta, " "))
			walk(f.Children, indent+"  ")
		}
	}
	walk(list, "")
	p.grid(g)
}

func (p *printer) fragment(f *Fragment) {
	p.heading(fmt.Sprintf("fragment %d: %d rows, %d deleted", f.ID, f.PhysicalRows, f.DeletedRows))
	if d := f.Deletions; d != nil {
		text := fmt.Sprintf("  deletions %s: %s of %d rows, read version %d", plain(d.Path), d.Encoding, d.Rows, d.ReadVersion)
		p.line("%s%s", text, optional(d.Base, ", base path %d"))
	}
	for i := range f.Files {
		df := &f.Files[i]
		size := "unknown size"
		if df.Size > 0 {
			size = fmt.Sprintf("%d bytes", df.Size)
		}
		p.line("  file %s: version %s, %s, fields %s%s", plain(df.Path), df.Version, size, numbers(df.Fields), optional(df.Base, ", base path %d"))
		if df.Contents != nil {
			p.columns(df.Contents.Columns, "    ")
		}
	}
}

func (p *printer) dataFile(f *File) {
	p.pairs([][2]string{
		{"version", f.Version}, {"footer", f.Footer}, {"rows", count(f.Rows)}, {"size", fmt.Sprintf("%d bytes", f.Size)},
		{"global buffers", bufferList(f.GlobalBuffers, true)},
	})
	if f.Schema != nil {
		p.schema(f.Schema)
	}
	p.strings("schema metadata", f.SchemaMetadata)
	p.heading("columns")
	p.columns(f.Columns, "  ")
}

// columns prints one line for each page; what belongs to the column stands in front of its first page.
func (p *printer) columns(list []Column, indent string) {
	g := &grid{indent: indent, right: []int{0, 2, 3}, rows: [][]string{{"column", "field", "page", "rows", "layout", "encodings", "buffers"}}}
	for i := range list {
		c := &list[i]
		index, field := fmt.Sprint(c.Index), "none"
		if c.FieldID != nil {
			field = fmt.Sprintf("%d %s", *c.FieldID, plain(c.Field))
		}
		if extra := c.Encoding != "values" || len(c.Buffers) > 0; extra || len(c.Pages) == 0 {
			g.add(index, field, "", count(c.Rows), "column", c.Encoding, bufferList(c.Buffers, false))
			index, field = "", ""
		}
		for k := range c.Pages {
			pg := &c.Pages[k]
			g.add(index, field, fmt.Sprint(k), count(pg.Rows), plain(layout(pg)), plain(encodings(pg.Encodings)), bufferList(pg.Buffers, false))
			index, field = "", ""
		}
	}
	p.grid(g)
}

func layout(p *Page) string {
	text := p.Layout
	if p.Chunks > 0 {
		text += fmt.Sprintf(" of %d", p.Chunks)
	}
	if len(p.Levels) > 1 || len(p.Levels) == 1 && p.Levels[0] != "all-valid-item" {
		text += " [" + strings.Join(p.Levels, " ") + "]"
	}
	return text
}

func encodings(m map[string]string) string {
	var out []string
	for _, part := range [...]string{"value", "values", "dictionary", "repetition", "definition"} {
		if e, ok := m[part]; ok {
			out = append(out, part+" "+e)
		}
	}
	return strings.Join(out, ", ")
}

func bufferList(list []Buffer, offsets bool) string {
	var out []string
	for _, b := range list {
		if offsets {
			out = append(out, fmt.Sprintf("%s %d+%d", b.Role, b.Offset, b.Size))
			continue
		}
		out = append(out, fmt.Sprintf("%s %d", b.Role, b.Size))
	}
	return strings.Join(out, ", ")
}

func (p *printer) indexes(list []Index) {
	if len(list) == 0 {
		return
	}
	p.heading("indexes")
	g := &grid{indent: "  ", right: []int{4}, rows: [][]string{{"name", "kind", "fields", "fragments", "version", "built from", "bytes", "uuid"}}}
	for i := range list {
		x := &list[i]
		covered := ranges(x.Fragments)
		if len(x.Uncovered) > 0 {
			covered += ", not " + ranges(x.Uncovered)
		}
		bytes := uint64(0)
		for _, f := range x.Files {
			bytes += f.Size
		}
		g.add(plain(x.Name), plain(x.Kind), numbers(x.Fields), covered, fmt.Sprint(x.IndexVersion), count(x.BuiltFrom), count(bytes), x.UUID+optional(x.Base, ", base path %d"))
	}
	p.grid(g)
}

func (p *printer) transaction(t *Transaction) {
	p.pairs([][2]string{
		{"operation", plain(t.Operation)}, {"read version", count(t.ReadVersion)}, {"uuid", plain(t.UUID)},
		{"what", effects(t)}, {"predicate", plain(t.Predicate)},
	})
	p.strings("properties", t.Properties)
}

func effects(t *Transaction) string {
	var out []string
	for _, e := range t.Effects {
		out = append(out, fmt.Sprintf("%s %d", e.What, e.Count))
	}
	for _, g := range t.Merged {
		out = append(out, fmt.Sprintf("merged generation %d of %s", g.Generation, g.Shard))
	}
	return strings.Join(out, ", ")
}
