package inspect

import (
	"fmt"
	"strings"
)

func (p *printer) memWAL(m *MemWAL) {
	p.heading("MemWAL")
	indexes := strings.Join(m.MaintainedIndexes, " ")
	if m.MaintainAll {
		indexes = "all"
	}
	rows := [][2]string{{"shards", fmt.Sprint(m.NumShards)}}
	for _, s := range m.ShardingSpecs {
		rows = append(rows, [2]string{fmt.Sprintf("sharding spec %d", s.ID), shardingText(s)})
	}
	rows = append(rows, [2]string{"merged", mergedText(m.Merged)}, [2]string{"maintained indexes", plain(indexes)})
	for _, c := range m.Catchup {
		rows = append(rows, [2]string{"caught up " + plain(c.Index), mergedText(c.CaughtUp)})
	}
	if m.InlineSnapshots > 0 {
		rows = append(rows, [2]string{"inline snapshots", fmt.Sprintf("%d bytes", m.InlineSnapshots)})
	}
	p.indented("  ", rows)
	p.strings("MemWAL writer defaults", m.WriterDefaults)
}

func shardingText(s ShardingSpec) string {
	var out []string
	for _, f := range s.Fields {
		text := fmt.Sprintf("%s: %s%s -> %s", plain(f.ID), plain(f.Transform), plain(f.Expression), plain(f.ResultType))
		if len(f.Sources) > 0 {
			text += ", fields " + numbers(f.Sources)
		}
		for _, k := range sorted(f.Parameters) {
			text += ", " + plain(k) + "=" + short(f.Parameters[k])
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func mergedText(list []MergedGeneration) string {
	var out []string
	for _, g := range list {
		out = append(out, fmt.Sprintf("generation %d of %s", g.Generation, g.Shard))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

func (p *printer) shard(s *Shard) {
	p.heading("shard " + s.ID)
	if s.Manifest != nil {
		rows := shardPairs(s.Manifest)
		rows[0][1] += fmt.Sprintf(" of %d kept", s.Versions)
		p.indented("  ", rows)
		p.generations(s.Manifest.Generations, "  ")
	}
	if len(s.Orphans) > 0 {
		p.line("  directories of no generation: %s", plain(strings.Join(s.Orphans, " ")))
	}
	p.wal(s.WAL)
}

func shardPairs(m *ShardManifest) [][2]string {
	rows := [][2]string{
		{"manifest version", count(m.Version)}, {"status", plain(m.Status)}, {"writer epoch", count(m.Epoch)},
		{"replay after", fmt.Sprintf("WAL entry %d", m.ReplayAfter)}, {"last seen", fmt.Sprintf("WAL entry %d", m.LastSeen)},
		{"current generation", count(m.CurrentGeneration)}, {"sharding spec", fmt.Sprint(m.SpecID)},
	}
	for _, k := range sorted(m.FieldEntries) {
		rows = append(rows, [2]string{"field " + plain(k), "0x" + m.FieldEntries[k]})
	}
	return rows
}

func (p *printer) shardManifest(m *ShardManifest) {
	p.pairs(append([][2]string{{"shard", m.Shard}}, shardPairs(m)...))
	p.generations(m.Generations, "")
}

func (p *printer) generations(list []Generation, indent string) {
	if len(list) == 0 {
		p.line("%sno flushed generations", indent)
		return
	}
	p.line("%sflushed generations", indent)
	g := &grid{indent: indent + "  ", right: []int{0, 1, 2, 3, 4}, rows: [][]string{{"generation", "rows", "duplicates", "bytes", "memory bytes", "path", "state"}}}
	for i := range list {
		x := &list[i]
		duplicates, bytes, state := "", "", ""
		if x.Merged {
			state = "merged"
		}
		if x.Found != nil {
			duplicates, bytes = count(x.Found.PhysicalRows-x.Found.Rows), count(x.Found.DataBytes)
		}
		g.add(count(x.Generation), optional(x.PhysicalRows, "%d"), duplicates, bytes, optional(x.InMemoryBytes, "%d"), plain(x.Path), state)
	}
	p.grid(g)
}

// wal prints runs of entries that differ in nothing but position and rows as one line.
func (p *printer) wal(list []WALEntry) {
	if len(list) == 0 {
		p.line("  no WAL entries")
		return
	}
	p.line("  WAL entries")
	g := &grid{indent: "    ", right: []int{1, 2, 3, 4}, rows: [][]string{{"positions", "epoch", "generation", "rows", "bytes", "state"}}}
	for i := 0; i < len(list); {
		first, last := &list[i], &list[i]
		rows, bytes := first.Rows, first.Size
		for i++; i < len(list) && sameRun(last, &list[i]); i++ {
			last = &list[i]
			rows, bytes = rows+last.Rows, bytes+last.Size
		}
		positions := count(first.Position)
		if last != first {
			positions += "-" + count(last.Position)
		}
		epoch, generation := count(first.Epoch), ""
		if first.Generation > 0 {
			generation = count(first.Generation)
		}
		if first.Damaged {
			epoch = "?"
		}
		g.add(positions, epoch, generation, fmt.Sprint(rows), fmt.Sprint(bytes), walState(first))
	}
	p.grid(g)
}

func sameRun(a, b *WALEntry) bool {
	return b.Position == a.Position+1 && a.Epoch == b.Epoch && a.Generation == b.Generation && a.Sentinel == b.Sentinel &&
		a.Covered == b.Covered && a.Damaged == b.Damaged
}

func walState(e *WALEntry) string {
	var out []string
	if e.Sentinel {
		out = append(out, "fence sentinel")
	}
	if e.Covered {
		out = append(out, "covered")
	}
	if e.Damaged {
		out = append(out, "damaged")
	}
	return strings.Join(out, ", ")
}

func (p *printer) walEntry(e *WALEntry) {
	kind := "data"
	if e.Sentinel {
		kind = "fence sentinel"
	}
	generation := "not recorded"
	if e.Generation > 0 {
		generation = count(e.Generation)
	}
	position := "not in the name"
	if e.Position > 0 {
		position = count(e.Position)
	}
	p.pairs([][2]string{
		{"position", position}, {"kind", kind}, {"writer epoch", count(e.Epoch)}, {"generation", generation},
		{"rows", fmt.Sprintf("%d in %d batches", e.Rows, e.Batches)}, {"size", fmt.Sprintf("%d bytes", e.Size)},
	})
	if len(e.Columns) == 0 {
		return
	}
	p.heading("columns")
	g := &grid{indent: "  ", rows: [][]string{{"name", "type", "null"}}}
	for _, c := range e.Columns {
		g.add(plain(c.Name), plain(c.Type), yes(c.Nullable))
	}
	p.grid(g)
}

func (p *printer) dataDirectory(d *DataDirectory) {
	p.pairs([][2]string{{"format", plain(d.FormatVersion)}, {"catalog version", count(d.CatalogVersion)}})
	for i := range d.Databases {
		db := &d.Databases[i]
		p.heading(fmt.Sprintf("database %s: %d tables", plain(db.Name), len(db.Tables)))
		if len(db.Tables) == 0 {
			continue
		}
		g := &grid{indent: "  ", right: []int{1, 2, 3, 4, 5, 6, 7}, rows: [][]string{
			{"table", "version", "base rows", "fragments", "base bytes", "generations", "WAL entries", "WAL bytes", "path"}}}
		for k := range db.Tables {
			t := &db.Tables[k]
			var generations, entries int
			var bytes int64
			for _, s := range t.Shards {
				generations, entries, bytes = generations+s.Generations, entries+s.WALEntries, bytes+s.WALBytes
			}
			g.add(plain(t.Name), count(t.Version), count(t.Rows), fmt.Sprint(t.Fragments), count(t.DataBytes),
				fmt.Sprint(generations), fmt.Sprint(entries), fmt.Sprint(bytes), plain(t.Path))
		}
		p.grid(g)
	}
}
