package sqlbackend

import (
	"cmp"
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

// What ANALYZE TABLE counted, or UPDATE HISTOGRAM … USING DATA said, outlives the server: a database keeps it for each table as one of
// its options in the catalog, named by the table's id, so that it goes with the table through renames and is never that of another one.

const statisticsText textKind = "statistics:"

// keptStatistic is what is kept of the first columns of an index.
type keptStatistic struct {
	Index    string   `json:"index"`
	Columns  []string `json:"columns"`
	Rows     uint64   `json:"rows"`
	Distinct uint64   `json:"distinct"`
	Set      bool     `json:"set,omitempty"` // by hand

	Histogram *keptHistogram `json:"histogram,omitempty"` // of a first column
}

func keep(st sql.Statistic, set bool) keptStatistic {
	return keptStatistic{Index: st.Qualifier().Idx, Columns: st.Columns(), Rows: st.RowCount(), Distinct: st.DistinctCount(), Set: set}
}

// like reports whether both are of the same columns of an index.
func (k keptStatistic) like(o keptStatistic) bool {
	return strings.EqualFold(k.Index, o.Index) && strings.EqualFold(strings.Join(k.Columns, ","), strings.Join(o.Columns, ","))
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

// keptOf returns what is kept of a table, decoding it if it has changed. It does no I/O.
func (s *statistics) keptOf(t *Table) map[statKey]keptStatistic {
	d := t.provider.engine.Catalog().Database(t.Database())
	if d == nil {
		return nil
	}
	option := d.Options[keptName(t.info.entry.ID)]
	if option == "" {
		return nil
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
	return k.found
}

// kept returns what is kept of columns of an index.
func (s *statistics) kept(t *Table, key statKey) (keptStatistic, bool) {
	k, ok := s.keptOf(t)[key]
	return k, ok
}

// keep writes what was found of a table, beside what was set by hand.
func (s *statistics) keep(ctx *sql.Context, t *Table, found []sql.Statistic) error {
	var all []keptStatistic
	for _, st := range found {
		k := keep(st, false)
		if len(k.Columns) == 1 {
			if h, ok := t.keptHistogramOf(ctx, t.info.indexNamed(k.Index), st.LowerBound(), st.Histogram()); ok {
				k.Histogram = &h
			}
		}
		all = append(all, k)
	}
	return t.provider.changeKeptOf(ctx, t.info.entry, func(now []keptStatistic) []keptStatistic {
		out := slices.Clone(all)
		for _, k := range now {
			if k.Set && !slices.ContainsFunc(out, k.like) {
				out = append(out, k)
			}
		}
		return out
	})
}

// keepSet writes a statistic that was set by hand and returns its table; nil if there is none.
func (s *statistics) keepSet(ctx *sql.Context, st sql.Statistic) (*engine.TableEntry, error) {
	c, entry := tableIn(ctx, st.Qualifier())
	if entry == nil {
		return nil, nil
	}
	return entry, c.provider.changeKeptOf(ctx, entry, func(now []keptStatistic) []keptStatistic {
		k := keep(st, true)
		return append(slices.DeleteFunc(now, k.like), k)
	})
}

// dropKept removes what is kept of columns of an index of a table, or of all its indexes.
func (s *statistics) dropKept(ctx *sql.Context, qual sql.StatQualifier, columns []string) error {
	c, entry := tableIn(ctx, qual)
	if entry == nil {
		return nil
	}
	return c.provider.changeKeptOf(ctx, entry, func(now []keptStatistic) []keptStatistic {
		return slices.DeleteFunc(now, func(k keptStatistic) bool {
			return k.like(keptStatistic{Index: cmp.Or(qual.Index(), k.Index), Columns: columns})
		})
	})
}

// tableIn is the table that a statistic names, and the session that asks; nil if there is none.
func tableIn(ctx *sql.Context, qual sql.StatQualifier) (*Conn, *engine.TableEntry) {
	c := connOf(ctx)
	if c == nil {
		return nil, nil
	}
	d := c.provider.engine.Catalog().Database(qual.Db())
	if d == nil {
		return nil, nil
	}
	return c, d.Table(qual.Table())
}

// changeKeptOf changes what is kept of a table.
func (p *Provider) changeKeptOf(ctx *sql.Context, t *engine.TableEntry, change func([]keptStatistic) []keptStatistic) error {
	name := keptName(t.ID)
	return p.changeKept(ctx, t.Database, func(now engine.DatabaseOptions) (engine.DatabaseOptions, error) {
		var all keptStatistics
		if now[name] != "" {
			if err := json.Unmarshal([]byte(now[name]), &all); err != nil {
				return nil, errs.Corrupt("catalog", -1, "option %q of database %s: %v", name, t.Database, err)
			}
		}
		all.Found = change(all.Found)
		b, err := json.Marshal(all)
		if err != nil {
			return nil, fmt.Errorf("encode statistics of %s: %w", t.Name, err)
		}
		return engine.DatabaseOptions{name: string(b)}, nil
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
