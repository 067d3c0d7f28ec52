package sqlbackend

import (
	"math"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// sysTables lists the status tables by name.
func sysTables() []sysTableDef {
	name, number, seconds, text := sysText(64), types.Uint64, types.Float64, sysText(1024)
	return []sysTableDef{
		{name: "jobs", rows: jobRows, columns: []sysColumn{
			{"job", name, false}, {"table_schema", name, true}, {"table_name", name, true}, {"state", name, false},
			{"conflicts", number, false}, {"failures", number, false},
		}},
		{name: "journal", rows: journalRows, columns: []sysColumn{
			{"first_record", number, false}, {"next_record", number, false}, {"bytes", number, false}, {"limit_bytes", number, false},
			{"tables_behind", number, false}, {"tables_unopened", number, false},
		}},
		{name: "memory", rows: memoryRows, columns: []sysColumn{{"account", name, false}, {"bytes", number, false}}},
		{name: "stalls", rows: stallRows, columns: []sysColumn{
			{"path", text, true}, {"reason", text, false}, {"seconds", seconds, false},
		}},
		{name: "tables", rows: tableRows, columns: []sysColumn{
			{"table_schema", name, false}, {"table_name", name, false}, {"path", text, false}, {"is_open", types.Boolean, false},
			{"freshness", number, false},
			{"table_rows", number, true}, {"data_bytes", number, true}, {"pending_rows", number, true}, {"behind_seconds", seconds, true},
			{"frozen", number, true}, {"generations", number, true}, {"obsolete", number, true}, {"shards", number, true},
			{"version", number, true}, {"fragments", number, true}, {"small_fragments", number, true}, {"deleted_rows", number, true},
			{"duplicate_keys", number, true}, {"last_error", text, true},
		}},
	}
}

// tableRows shows every table. Of one that is not open only its name is known: opening thousands for a look would cost
// more than the look is worth.
func tableRows(p *Provider) []sql.Row {
	var rows []sql.Row
	for _, d := range p.engine.Catalog().Databases() {
		for _, t := range d.Tables() {
			if t.IsRebuild() {
				continue
			}
			bound := p.engine.Freshness()
			if own := TableOptions(t).Freshness; own != 0 {
				bound = max(own, 0)
			}
			row := sql.Row{d.Name, t.Name, t.Path, int8(0), uint64(bound / time.Second)}
			s, ok := p.engine.State(t.ID)
			if !ok {
				rows = append(rows, append(row, make(sql.Row, 14)...))
				continue
			}
			row[3] = int8(1)
			failure := any(nil)
			if s.Failure != nil {
				failure = s.Failure.Error()
			}
			rows = append(rows, append(row,
				s.Size.Rows, s.Size.Bytes, s.Lag.Rows, seconds(s.Lag.Age), uint64(s.Pressure.Frozen), uint64(s.Pressure.Generations),
				uint64(s.Pressure.Obsolete), uint64(s.Base.Shards), s.Base.Version, uint64(s.Base.Fragments), uint64(s.Base.Small),
				s.Base.Deleted, uint64(s.Twice), failure))
		}
	}
	return rows
}

func memoryRows(p *Provider) []sql.Row {
	m := p.engine.Memory()
	var rows []sql.Row
	for _, a := range []struct {
		name  string
		bytes int64
	}{
		{"memtables", m.MemTables}, {"behind", m.Behind}, {"deaths", m.Deaths}, {"write sets", m.WriteSets}, {"locks", m.Locks},
		{"pages", m.Pages}, {"total", m.Total()}, {"limit", m.Limit},
		{"temporary tables", m.Temporary},
	} {
		rows = append(rows, sql.Row{a.name, uint64(max(a.bytes, 0))})
	}
	return rows
}

func journalRows(p *Provider) []sql.Row {
	j := p.engine.Journal()
	return []sql.Row{{j.Start, j.Next, uint64(j.Bytes), uint64(j.Limit), uint64(j.Behind), uint64(j.Unopened)}}
}

func stallRows(p *Provider) []sql.Row {
	var rows []sql.Row
	for _, s := range p.engine.Stalls() {
		path := any(nil)
		if s.Table != "" {
			path = s.Table
		}
		rows = append(rows, sql.Row{path, s.Reason, seconds(p.engine.Now().Sub(s.Since))})
	}
	return rows
}

func jobRows(p *Provider) []sql.Row {
	names := make(map[string][2]string)
	for _, d := range p.engine.Catalog().Databases() {
		for _, t := range d.Tables() {
			names[t.ID.String()] = [2]string{d.Name, t.Name}
		}
	}
	var rows []sql.Row
	for _, j := range p.engine.Jobs() {
		state := "running"
		switch {
		case j.Running:
		case j.Paused:
			state = "paused"
		default:
			state = "queued"
		}
		row := sql.Row{j.Kind.String(), nil, nil, state, uint64(j.Conflicts), uint64(j.Failures)}
		if n, ok := names[tableOfJob(j.Table)]; ok {
			row[1], row[2] = n[0], n[1]
		}
		rows = append(rows, row)
	}
	return rows
}

// tableOfJob cuts the id of the table out of a job's name; jobs of the log have a longer one.
func tableOfJob(name string) string {
	const id = 36
	return name[:min(len(name), id)]
}

// seconds is a duration to the millisecond.
func seconds(d time.Duration) float64 {
	return math.Round(max(d, 0).Seconds()*1000) / 1000
}
