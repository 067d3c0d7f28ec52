package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"lancesql/engine/journal"
	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
	"lancesql/lsm"
	"lancesql/wal"
)

// quarantineDir holds what a recovery set aside, one directory for each time.
const quarantineDir = systemDir + "/quarantine"

// RecoverOptions configures Recover.
type RecoverOptions struct {
	// TruncateAtDamage sets aside what lies at and behind damage in a WAL or in the journal; otherwise damage is an error.
	TruncateAtDamage bool
	// Report gets what is found and done, a line each; nil discards.
	Report func(line string)
}

// RecoverSummary counts what Recover did.
type RecoverSummary struct {
	Tables  int    // tables that had journal records in no WAL entry
	Records uint64 // such records
	Rows    int64  // their rows
	Aside   string // directory of what was set aside, below the root; "" if nothing was
}

// Recover completes the WAL files of a data directory whose engine died, for tools that read tables without us: it opens
// the directory as a server does, which writes what is in the journal only into WAL entries, and closes it. Doing it
// again finds nothing to do. Damage in the middle of a WAL or of the journal is errs.ErrCorruption that says what would be
// lost, unless o says to cut there. errs.ErrLocked while a server has the directory open.
func Recover(ctx context.Context, cfg Config, c Components, o RecoverOptions) (*RecoverSummary, error) {
	if o.Report == nil {
		o.Report = func(string) {}
	}
	st, err := objstore.OpenReadOnly(cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	defer st.Close()
	if _, err := ReadFormat(ctx, st); errors.Is(err, errs.ErrNotFound) {
		return nil, fmt.Errorf("%s is not a lancesql data directory: it has no %s/%s: %w", cfg.DataDir, systemDir, formatName, errs.ErrInvalid)
	} else if err != nil {
		return nil, err
	}
	r := &recoverTool{ctx: ctx, dir: cfg.DataDir, st: st, o: o, out: &RecoverSummary{}, clock: c.Clock}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	if err := r.serve(cfg, c); err != nil {
		return nil, err
	}
	// Why a second look: the tool says that it is done only if it is.
	before := *r.out
	if err := r.survey(); err != nil {
		return nil, err
	}
	if left := r.out.Records; left > 0 || r.damaged() {
		return nil, fmt.Errorf("%d journal records are still in no WAL entry: %w", left, errs.ErrPoisoned)
	}
	return &before, nil
}

// recoverTool is one run of Recover.
type recoverTool struct {
	ctx   context.Context
	dir   string
	st    *objstore.ReadOnly
	o     RecoverOptions
	out   *RecoverSummary
	clock clock.Clock

	image   *Catalog
	pending map[TableID]*pendingTable
	wals    []tableWAL
	journal *journal.Examination
	lost    []lostRecord // journal records behind damage that no WAL entry holds
	held    int          // journal records behind damage that WAL entries hold
	cut     []TableID    // tables whose WALs were set aside in part
}

// tableWAL is the WAL of one table.
type tableWAL struct {
	entry  *TableEntry
	shards []lsm.WALState
}

// lostRecord is one shard's share of a journal record behind damage.
type lostRecord struct {
	j     journal.J
	table TableID
	rows  int64 // -1: unreadable
}

// prepare surveys the directory under its lock and sets damage aside, or refuses to go on.
func (r *recoverTool) prepare() error {
	lock, err := lockDataDir(r.dir)
	if err != nil {
		return err
	}
	err = r.survey()
	if err == nil && r.damaged() {
		if r.o.TruncateAtDamage {
			err = r.setAside()
		} else {
			err = r.refuse()
		}
	}
	return errors.Join(err, unlockDataDir(lock))
}

// survey reads catalog, WALs and journal.
func (r *recoverTool) survey() error {
	r.pending, r.wals, r.lost, r.held = make(map[TableID]*pendingTable), nil, nil, 0
	r.out.Tables, r.out.Records, r.out.Rows = 0, 0, 0
	var err error
	if r.image, err = ReadCatalog(r.ctx, r.st); err != nil {
		return err
	}
	evidence := make(map[TableID]map[uuid.UUID]uint64)
	for _, d := range r.image.databases {
		for _, t := range d.tables {
			shards, err := lsm.SurveyWAL(r.ctx, r.st, t.Path)
			if err != nil {
				return fmt.Errorf("table %s.%s: %w", d.Name, t.Name, err)
			}
			r.wals = append(r.wals, tableWAL{entry: t, shards: shards})
			evidence[t.ID] = make(map[uuid.UUID]uint64)
			for _, s := range shards {
				evidence[t.ID][s.Shard] = s.Evidence
			}
		}
	}
	r.journal, err = journal.Examine(logfile.LookAt(filepath.Join(r.dir, filepath.FromSlash(journalDir))), func(f journal.Found) error {
		if f.Kind != journal.Commit {
			return r.ctx.Err()
		}
		waits := false
		for _, p := range f.Parts {
			id := TableID(p.Table)
			if !r.image.names(id) {
				continue
			}
			if uint64(f.J) <= evidence[id][uuid.UUID(p.Shard)] {
				if f.Lost {
					r.held++
				}
				continue
			}
			rows, err := wal.BodyRows(p.Body)
			if err != nil {
				rows = -1
			}
			if f.Lost {
				r.lost = append(r.lost, lostRecord{j: f.J, table: id, rows: rows})
				continue
			}
			if r.pending[id] == nil {
				r.pending[id] = &pendingTable{}
			}
			r.pending[id].records++
			r.pending[id].rows += max(rows, 0)
			r.out.Rows += max(rows, 0)
			waits = true
		}
		if waits {
			r.out.Records++
		}
		return r.ctx.Err()
	})
	r.out.Tables = len(r.pending)
	if err != nil {
		return err
	}
	for _, end := range r.journal.Ends {
		r.reaches(end)
	}
	return nil
}

// reaches looks whether a WAL reaches the position that the journal names.
func (r *recoverTool) reaches(end journal.End) {
	for i := range r.wals {
		w := &r.wals[i]
		if w.entry.ID != TableID(end.Table) {
			continue
		}
		at := slices.IndexFunc(w.shards, func(s lsm.WALState) bool { return s.Shard == end.Shard })
		if at < 0 {
			at = len(w.shards)
			w.shards = append(w.shards, lsm.WALState{Shard: end.Shard})
		}
		w.shards[at].Reaches(w.entry.Path, end.Position)
	}
}

func (r *recoverTool) damaged() bool {
	return r.journal.Damage != nil || slices.ContainsFunc(r.wals, func(w tableWAL) bool {
		return slices.ContainsFunc(w.shards, func(s lsm.WALState) bool { return s.Damage != nil })
	})
}

// loss says what is lost by cutting at the damage, a line each.
func (r *recoverTool) loss() []string {
	var lines []string
	for _, w := range r.wals {
		for _, s := range w.shards {
			if s.Damage != nil {
				lines = append(lines, walLoss(w.entry, s)...)
			}
		}
	}
	d := r.journal.Damage
	if d == nil {
		return lines
	}
	lines = append(lines, fmt.Sprintf("journal: %v", d.Err))
	rows, unreadable, tables := int64(0), 0, make(map[TableID]bool)
	last := d.Next
	for _, l := range r.lost {
		last = max(last, l.j)
		tables[l.table] = true
		if l.rows < 0 {
			unreadable++
		}
		rows += max(l.rows, 0)
	}
	lines = append(lines, fmt.Sprintf("journal: lost are record %d and, of those behind it, %d parts with %d rows up to record %d in %d tables (%d parts unreadable); WAL entries hold %d parts",
		d.Next, len(r.lost), rows, last, len(tables), unreadable, r.held))
	return lines
}

// walLoss says what cutting the WAL of a shard loses.
func walLoss(t *TableEntry, s lsm.WALState) []string {
	d := s.Damage
	where := fmt.Sprintf("table %s.%s, shard %s", t.Database, t.Name, s.Shard)
	lines := []string{fmt.Sprintf("%s: %v", where, d.Err)}
	rows, unreadable := int64(0), 0
	last := d.Position
	var first, final uint64
	for _, e := range d.Lost {
		last = max(last, e.Position)
		if e.Rows < 0 {
			unreadable++
			continue
		}
		rows += e.Rows
		if e.Generation > 0 {
			if first == 0 {
				first = e.Generation
			}
			final = max(final, e.Generation)
		}
	}
	return append(lines, fmt.Sprintf("%s: lost are WAL entries %d to %d, generations %d to %d: %d rows, and the rows of %d entries that cannot be read; what the journal still holds of them is written again",
		where, d.Position, last, first, final, rows, unreadable))
}

// refuse reports the damage and says how to go on without what it took.
func (r *recoverTool) refuse() error {
	for _, line := range r.loss() {
		r.o.Report(line)
	}
	err := error(nil)
	if r.journal.Damage != nil {
		err = r.journal.Damage.Err
	}
	for _, w := range r.wals {
		for _, s := range w.shards {
			if s.Damage != nil && err == nil {
				err = s.Damage.Err
			}
		}
	}
	return fmt.Errorf("%w; --truncate-at-damage sets it and everything behind it aside and goes on", err)
}

// serve lets an engine do the work of a start and of a clean stop.
func (r *recoverTool) serve(cfg Config, c Components) error {
	cfg.Freshness = NoFreshness // nothing but the WAL is to be written
	c.shortened = r.cut
	e, err := Open(r.ctx, cfg, c)
	if err != nil {
		return err
	}
	var faults []error
	for id, p := range r.pending {
		entry := e.Catalog().TableByID(id)
		if entry == nil {
			continue
		}
		if _, err := e.openTable(r.ctx, entry); err != nil { // its error at the start went to the log
			faults = append(faults, err)
			continue
		}
		r.o.Report(fmt.Sprintf("table %s.%s: %d journal records with %d rows are in WAL entries now", entry.Database, entry.Name, p.records, p.rows))
	}
	return errors.Join(append(faults, e.Close(context.WithoutCancel(r.ctx)))...)
}
