package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"lancesql/engine/journal"
	"lancesql/internal/errs"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
	"lancesql/lsm"
	"lancesql/wal"
)

// CheckOptions configures Check.
type CheckOptions struct {
	lsm.CheckOptions
	// Unlocked takes no lock: the directory is a copy, or the caller knows that nobody writes.
	Unlocked bool
}

// CheckSummary counts what Check looked at.
type CheckSummary struct {
	Catalog        uint64 // version
	Databases      int
	Tables         int
	Rows           uint64 // live rows of base tables
	Shards         int
	JournalRecords uint64 // that are retained
	Pending        uint64 // of those, that no WAL entry covers yet
	PendingRows    int64
}

// CheckFinding is one finding of Check.
type CheckFinding struct {
	lsm.Finding
	Table string // database.table, "" if it is about none
}

// Check verifies a data directory that no process writes, without changing a byte of it: catalog, journal, and every
// table. Findings are given as they are made. Errors mean that it could not be checked: errs.ErrLocked while a server
// has it open, errs.ErrInvalid if it is no data directory, errs.ErrNewerFormat, a context that ended.
func Check(ctx context.Context, dir string, o CheckOptions, found func(CheckFinding)) (*CheckSummary, error) {
	st, err := objstore.OpenReadOnly(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	defer st.Close()
	if _, err := ReadFormat(ctx, st); errors.Is(err, errs.ErrNotFound) {
		return nil, fmt.Errorf("%s is not a lancesql data directory: it has no %s/%s: %w", dir, systemDir, formatName, errs.ErrInvalid)
	} else if errors.Is(err, errs.ErrCorruption) {
		found(CheckFinding{Finding: lsm.FindingOf(systemDir+"/"+formatName, err)})
	} else if err != nil {
		return nil, err
	}
	if !o.Unlocked {
		release, err := shareDataDir(dir)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	c := &dirCheck{ctx: ctx, dir: dir, st: st, o: o, report: found, out: &CheckSummary{}, states: make(map[TableID]*lsm.TableState)}
	for _, step := range []func() error{c.catalog, c.strangers, c.tables, c.journal} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return c.out, ctx.Err()
}

// dirCheck is one check of a data directory.
type dirCheck struct {
	ctx    context.Context
	dir    string
	st     *objstore.ReadOnly
	o      CheckOptions
	report func(CheckFinding)
	out    *CheckSummary

	image  *Catalog // nil if unreadable
	states map[TableID]*lsm.TableState
}

func (c *dirCheck) add(s lsm.Severity, object, format string, args ...any) {
	c.report(CheckFinding{Finding: lsm.Finding{Severity: s, Object: object, Offset: -1, What: fmt.Sprintf(format, args...)}})
}

// problem gives an error met while reading object as a finding, unless the context has ended.
func (c *dirCheck) problem(object string, err error) error {
	if err == nil {
		return nil
	}
	if cerr := c.ctx.Err(); cerr != nil {
		return cerr
	}
	c.report(CheckFinding{Finding: lsm.FindingOf(object, err)})
	return nil
}

// catalog reads every catalog snapshot and says what the newest leaves to do.
func (c *dirCheck) catalog() error {
	c.o.Progress("catalog")
	var versions []uint64
	err := c.st.List(c.ctx, catalogDir, func(i objstore.Info) error {
		if v, ok := parseSnapshotName(i.Name); ok && !i.Dir {
			versions = append(versions, v)
		} else {
			c.add(lsm.Warning, i.Name, "is no catalog snapshot")
		}
		return nil
	})
	if err := c.problem(catalogDir, err); err != nil {
		return err
	}
	slices.Sort(versions)
	for i, v := range slices.Backward(versions) {
		name := snapshotName(v)
		image, err := c.snapshot(name, v)
		switch {
		case err == nil && c.image == nil:
			c.image = image
			if i < len(versions)-1 {
				c.add(lsm.Warning, name, "the catalog before the damaged one is used: the last statement that changed it is lost")
			}
		case err == nil:
		case errors.Is(err, errs.ErrNewerFormat):
			return err
		case c.image == nil:
			if err := c.problem(name, err); err != nil {
				return err
			}
			if !errors.Is(err, errTorn) {
				return nil // Why: the engine refuses to start on it, and does not look further back
			}
		default:
			f := lsm.FindingOf(name, err)
			f.Severity = lsm.Warning // an older one, kept to fall back on
			c.report(CheckFinding{Finding: f})
		}
	}
	if len(versions) == 0 {
		c.image = newCatalog(0, nil, nil)
	}
	if c.image == nil {
		return nil
	}
	c.out.Catalog, c.out.Databases = c.image.Version, len(c.image.databases)
	for _, in := range c.image.intents {
		c.add(lsm.Info, "", "an interrupted statement is finished or undone by the next start: %s", in)
	}
	return c.temporaries(systemDir, catalogDir)
}

func (c *dirCheck) snapshot(name string, v uint64) (*Catalog, error) {
	data, err := c.st.ReadAll(c.ctx, name, snapshotBytesMax)
	if err != nil {
		return nil, err
	}
	return decodeSnapshot(name, v, data)
}

func (c *dirCheck) temporaries(dirs ...string) error {
	for _, dir := range dirs {
		err := c.st.Temporaries(c.ctx, dir, func(i objstore.Info) error {
			c.add(lsm.Warning, i.Name, "unfinished file of a process that died; the next start removes it")
			return nil
		})
		if err := c.problem(dir, err); err != nil {
			return err
		}
	}
	return nil
}

// strangers lists what lies in the directory and is in no catalog.
func (c *dirCheck) strangers() error {
	if c.image == nil {
		return nil
	}
	known := make(map[string]bool)
	for _, d := range c.image.databases {
		known[d.dir] = true
		for _, t := range d.tables {
			known[t.Path] = true
		}
	}
	for _, in := range c.image.intents {
		known[in.Path], known[in.To] = true, true
	}
	err := c.st.List(c.ctx, "", func(i objstore.Info) error {
		switch base := path.Base(i.Name); {
		case base == systemDir || base == "lost+found":
			return nil
		case base == droppedDir:
			return c.st.List(c.ctx, droppedDir, func(i objstore.Info) error {
				c.add(lsm.Info, i.Name, "a dropped table whose removal did not finish; the next start removes it")
				return nil
			})
		case !i.Dir || !known[i.Name]:
			c.add(lsm.Info, i.Name, "is not lancesql's")
			return nil
		}
		return c.st.List(c.ctx, i.Name, func(t objstore.Info) error {
			if !known[t.Name] {
				c.add(lsm.Info, t.Name, "is in no catalog: not lancesql's")
			}
			return nil
		})
	})
	return c.problem("", err)
}

// tables checks every table of the catalog.
func (c *dirCheck) tables() error {
	if c.image == nil {
		return nil
	}
	moving := make(map[TableID]intent)
	for _, in := range c.image.intents {
		if in.Kind == intentRename {
			moving[in.ID] = in
		}
	}
	for _, d := range c.image.databases {
		for _, t := range d.tables {
			root := t.Path
			if in, ok := moving[t.ID]; ok && !c.there(root) && c.there(in.To) {
				root = in.To
			}
			if err := c.table(t, root); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *dirCheck) there(dir string) bool {
	found := false
	_ = c.st.List(c.ctx, dir, func(objstore.Info) error { found = true; return nil })
	return found
}

func (c *dirCheck) table(t *TableEntry, root string) error {
	name := t.Database + "." + t.Name
	give := func(f lsm.Finding) { c.report(CheckFinding{Finding: f, Table: name}) }
	state, err := lsm.Check(c.ctx, c.st, root, c.o.CheckOptions, give)
	if err != nil {
		return err
	}
	c.out.Tables++
	c.out.Rows += state.Rows
	c.out.Shards += len(state.Shards)
	c.states[t.ID] = state
	if state.Schema != nil && !state.Schema.Equal(t.Schema) {
		give(lsm.Finding{Severity: lsm.Error, Object: root, Offset: -1, What: "the catalog and the newest version disagree about the columns: the table cannot be opened"})
	}
	return nil
}

// journal reads the commit journal and compares it with what the WAL entries say of it.
func (c *dirCheck) journal() error {
	c.o.Progress("journal")
	pending := make(map[TableID]*pendingTable)
	unknown := make(map[TableID]bool)
	x, err := journal.Examine(logfile.LookAt(filepath.Join(c.dir, filepath.FromSlash(journalDir))), func(f journal.Found) error {
		if f.Lost || f.Kind != journal.Commit {
			return c.ctx.Err()
		}
		c.out.JournalRecords++
		waits := false
		for _, p := range f.Parts {
			w, err := c.part(f, p, pending, unknown)
			if err != nil {
				return err
			}
			waits = waits || w
		}
		if waits {
			c.out.Pending++
		}
		return c.ctx.Err()
	})
	if err != nil {
		return c.problem(journalDir, err)
	}
	if x.Damage != nil {
		f := lsm.FindingOf(journalDir, x.Damage.Err)
		f.Object = c.relative(f.Object)
		f.What += "; the commits from record " + fmt.Sprint(x.Damage.Next) + " on are lost unless WAL entries hold them (lancesql recover tells)"
		c.report(CheckFinding{Finding: f})
	}
	c.ends(x.Ends)
	return c.evidence(x, pending)
}

// ends compares how far the journal says that WALs reached with how far they do.
func (c *dirCheck) ends(list []journal.End) {
	for _, end := range list {
		state := c.states[TableID(end.Table)]
		if state == nil {
			continue // dropped, or reported already
		}
		s := state.Shards[end.Shard]
		if at := max(s.Cursor, s.Tip); at < end.Position && !s.Damaged {
			c.add(lsm.Error, journalDir, "WAL entries %d to %d of shard %s of table %s are missing: their commits are lost", at+1, end.Position, end.Shard, TableID(end.Table))
		}
	}
}

// relative names a file below the directory as the store would.
func (c *dirCheck) relative(file string) string {
	if rel, err := filepath.Rel(c.dir, file); err == nil && !strings.HasPrefix(rel, "..") {
		return filepath.ToSlash(rel)
	}
	return file
}

// pendingTable counts what of a table is in the journal only.
type pendingTable struct {
	records uint64
	rows    int64
}

// part judges one shard's share of a record: whether it still waits to be written behind.
func (c *dirCheck) part(f journal.Found, p journal.Part, pending map[TableID]*pendingTable, unknown map[TableID]bool) (waits bool, err error) {
	id := TableID(p.Table)
	if c.image == nil || !c.image.names(id) {
		if c.image != nil && !unknown[id] {
			unknown[id] = true
			c.add(lsm.Info, c.relative(f.Object), "record %d is of table %s, which was dropped", f.J, id)
		}
		return false, nil
	}
	state := c.states[id]
	if state != nil && uint64(f.J) <= state.Shards[uuid.UUID(p.Shard)].Evidence {
		return false, nil
	}
	rows, err := wal.BodyRows(p.Body)
	if err != nil {
		c.report(CheckFinding{Finding: lsm.Finding{Severity: lsm.Error, Object: c.relative(f.Object), Offset: f.Offset,
			What: fmt.Sprintf("journal record %d: rows of table %s: %v", f.J, id, err)}})
		return true, nil
	}
	if pending[id] == nil {
		pending[id] = &pendingTable{}
	}
	pending[id].records++
	pending[id].rows += rows
	c.out.PendingRows += rows
	return true, nil
}

// evidence compares the journal's numbers with those of WAL entries.
func (c *dirCheck) evidence(x *journal.Examination, pending map[TableID]*pendingTable) error {
	if c.image == nil {
		return nil
	}
	for _, d := range c.image.databases {
		for _, t := range d.tables {
			name := d.Name + "." + t.Name
			if p := pending[t.ID]; p != nil {
				c.report(CheckFinding{Table: name, Finding: lsm.Finding{Severity: lsm.Info, Object: t.Path, Offset: -1,
					What: fmt.Sprintf("%d journal records with %d rows are not in WAL entries yet; the next start, or lancesql recover, writes them", p.records, p.rows)}})
			}
			state := c.states[t.ID]
			if state == nil {
				continue
			}
			for id, s := range state.Shards {
				if s.Evidence == 0 || s.Evidence < uint64(x.Next) || x.Damage != nil {
					continue
				}
				f := lsm.Finding{Severity: lsm.Error, Object: journalDir, Offset: -1,
					What: fmt.Sprintf("a WAL entry of shard %s holds record %d, the journal ends at record %d: records of other tables may be lost", id, s.Evidence, uint64(x.Next)-1)}
				if x.Segments == 0 {
					f.Severity = lsm.Warning
					f.What = fmt.Sprintf("there is no journal, although a WAL entry of shard %s holds its record %d: it was removed, or the tables were copied here", id, s.Evidence)
				}
				c.report(CheckFinding{Table: name, Finding: f})
			}
		}
	}
	return nil
}
