package sqlbackend

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/google/uuid"

	"lancesql/engine"
	"lancesql/internal/errs"
)

// What ANALYZE TABLE counted outlives the server: a database keeps it for each table as one of its options in the catalog,
// named by the table's id, so that it goes with the table through renames and is never that of another one.

const statisticsText textKind = "statistics:"

// keptStatistic is what is kept of the first columns of an index.
type keptStatistic struct {
	Index    string   `json:"index"`
	Columns  []string `json:"columns"`
	Rows     uint64   `json:"rows"`
	Distinct uint64   `json:"distinct"`

	Histogram *keptHistogram `json:"histogram,omitempty"` // of a first column
}

type keptStatistics struct {
	Found []keptStatistic `json:"found"`
}

// keptTable is the statistics of a table with the option they were read from.
type keptTable struct {
	option string
	found  map[statKey]keptStatistic
}

func keptName(id engine.TableID) string { return string(statisticsText) + id.String() }

// kept returns what is kept of a table, decoding it if it has changed. It does no I/O.
func (s *statistics) kept(t *Table, key statKey) (keptStatistic, bool) {
	d := t.provider.engine.Catalog().Database(t.Database())
	if d == nil {
		return keptStatistic{}, false
	}
	option := d.Options[keptName(t.info.entry.ID)]
	if option == "" {
		return keptStatistic{}, false
	}
	s.mu.RLock()
	k, ok := s.decoded[t.info.entry.ID]
	s.mu.RUnlock()
	if !ok || k.option != option {
		k = keptTable{option: option, found: make(map[statKey]keptStatistic)}
		var all keptStatistics
		if err := json.Unmarshal([]byte(option), &all); err == nil { // else they are nobody's loss
			for _, f := range all.Found {
				k.found[keyOf(sql.NewStatQualifier(t.Database(), "", t.Name(), f.Index), f.Columns)] = f
			}
		}
		s.mu.Lock()
		s.decoded[t.info.entry.ID] = k
		s.mu.Unlock()
	}
	f, ok := k.found[key]
	return f, ok
}

// keep writes what was found of a table.
func (s *statistics) keep(ctx *sql.Context, t *Table, found []sql.Statistic) error {
	var all keptStatistics
	for _, st := range found {
		k := keptStatistic{Index: st.Qualifier().Idx, Columns: st.Columns(), Rows: st.RowCount(), Distinct: st.DistinctCount()}
		if len(k.Columns) == 1 {
			if h, ok := t.keptHistogramOf(ctx, t.info.indexNamed(k.Index), st.LowerBound(), st.Histogram()); ok {
				k.Histogram = &h
			}
		}
		all.Found = append(all.Found, k)
	}
	b, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode statistics of %s: %w", t.Name(), err)
	}
	return t.provider.changeKept(ctx, t.Database(), func(engine.DatabaseOptions) (engine.DatabaseOptions, error) {
		return engine.DatabaseOptions{keptName(t.info.entry.ID): string(b)}, nil
	})
}

// dropKept removes what is kept of columns of an index of a table, or of all its indexes.
func (s *statistics) dropKept(ctx *sql.Context, qual sql.StatQualifier, columns []string) error {
	c := connOf(ctx)
	if c == nil {
		return nil
	}
	d := c.provider.engine.Catalog().Database(qual.Db())
	if d == nil || d.Table(qual.Table()) == nil {
		return nil
	}
	name := keptName(d.Table(qual.Table()).ID)
	return c.provider.changeKept(ctx, d.Name, func(now engine.DatabaseOptions) (engine.DatabaseOptions, error) {
		if now[name] == "" {
			return nil, nil
		}
		var all keptStatistics
		if err := json.Unmarshal([]byte(now[name]), &all); err != nil {
			return nil, errs.Corrupt("catalog", -1, "option %q of database %s: %v", name, d.Name, err)
		}
		all.Found = slices.DeleteFunc(all.Found, func(f keptStatistic) bool {
			return (qual.Index() == "" || strings.EqualFold(f.Index, qual.Index())) && strings.EqualFold(strings.Join(f.Columns, ","), strings.Join(columns, ","))
		})
		b, err := json.Marshal(all)
		return engine.DatabaseOptions{name: string(b)}, err
	})
}

// changeKept changes statistics in the options of a database, and removes those of tables that are gone. As in MySQL, the
// statement commits what was open.
func (p *Provider) changeKept(ctx *sql.Context, db string, change func(engine.DatabaseOptions) (engine.DatabaseOptions, error)) error {
	if p.engine.ReadOnly() {
		return nil // it is for this process alone then
	}
	if err := connOf(ctx).implicitCommit(ctx); err != nil {
		return err
	}
	catalog := p.engine.Catalog()
	return p.alter(ctx, func(a *engine.Alteration) error {
		return a.ChangeOptions(db, func(now engine.DatabaseOptions) (engine.DatabaseOptions, error) {
			changes, err := change(now)
			if err != nil {
				return nil, err
			}
			out := maps.Clone(changes)
			if out == nil {
				out = engine.DatabaseOptions{}
			}
			for name := range now {
				id, found := strings.CutPrefix(name, string(statisticsText))
				if !found {
					continue
				}
				if u, err := uuid.Parse(id); err != nil || catalog.TableByID(engine.TableID(u)) == nil {
					out[name] = ""
				}
			}
			return out, nil
		})
	})
}
