package lsm

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/table"
)

// Severity says what a finding of a check means for the reader of the report.
type Severity uint8

// Severities, ascending.
const (
	Info    Severity = iota // worth knowing, nothing to do
	Warning                 // left-overs, or what this version cannot judge; no row is affected
	Error                   // an invariant is broken: rows are lost, doubled or unreadable, or would be
)

// String names the severity as reports print it.
func (s Severity) String() string {
	switch s {
	case Info:
		return "info"
	case Warning:
		return "warning"
	}
	return "error"
}

// Finding is one thing a check noticed.
type Finding struct {
	Severity Severity
	Object   string // name in the store, "" if it is about none
	Offset   int64  // byte in the object, -1 if unknown
	What     string
}

// CheckOptions configures Check. The zero value checks everything but the values of rows.
type CheckOptions struct {
	Deep        bool              // decode every value of every data file
	MemoryBytes int64             // for comparing keys (default 256 MiB); more keys take more passes over the key columns
	Progress    func(what string) // called now and then with what is being looked at; may be nil
}

const (
	checkMemoryBytes = 256 << 20
	// checkListMax bounds how many findings of one kind are given one by one; the rest is a number.
	checkListMax = 20
)

// ShardState is what a check learned about a shard, for whoever knows the journal.
type ShardState struct {
	Evidence uint64 // greatest journal number in any WAL entry that can be read
	Cursor   uint64 // replay cursor
	Tip      uint64 // greatest position present
	Damaged  bool   // an entry that a replay needs cannot be read, or is missing
}

// TableState is what a check learned about a table.
type TableState struct {
	Schema    *arrow.Schema // nil if it could not be read
	Version   uint64
	Rows      uint64 // live base rows
	Fragments int
	Shards    map[uuid.UUID]ShardState
}

// Temporaries is a store that can list what List hides: the unfinished objects of a directory.
type Temporaries interface {
	Temporaries(ctx context.Context, dir string, visit func(objstore.Info) error) error
}

// Check verifies what can be verified of the table at root without writing. Nobody may write to it meanwhile. Findings
// are given as they are made; an error means that the check could not go on: a context that ended, a store that fails.
// Memory is bounded by CheckOptions.MemoryBytes, one generation's keys, one WAL entry, and the names of files.
func Check(ctx context.Context, st objstore.Store, root string, o CheckOptions, found func(Finding)) (*TableState, error) {
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = checkMemoryBytes
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	c := &tableCheck{
		ctx: ctx, st: st, root: root, o: o, found: found, named: make(map[string]bool), listed: make(map[string]int),
		state: &TableState{Shards: make(map[uuid.UUID]ShardState)},
	}
	for _, step := range []func() error{c.versions, c.newest, c.bind, c.shards, c.baseKeys, c.manualKeys, c.unnamed} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("check %s: %w", root, err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	c.rest()
	return c.state, nil
}

// tableCheck is one check of one table.
type tableCheck struct {
	ctx   context.Context
	st    objstore.Store
	root  string
	o     CheckOptions
	found func(Finding)
	state *TableState

	ds       *table.Dataset // newest version, nil if unreadable
	all      []uint64       // versions on disk, ascending
	named    map[string]bool
	complete bool // every version could be read, so that named is whole

	t       *Table // bare: what binding to a schema gives; nil if the table is not one of ours
	sharder *sharder
	gens    []*generation // live generations of all shards that could be opened

	listed map[string]int // findings by kind, for those that may be many
}

// add gives a finding.
func (c *tableCheck) add(s Severity, object string, format string, args ...any) {
	c.found(Finding{Severity: s, Object: object, Offset: -1, What: fmt.Sprintf(format, args...)})
}

// some gives a finding of a kind that may be many; from checkListMax on they are only counted.
func (c *tableCheck) some(s Severity, kind, object string, format string, args ...any) {
	c.listed[kind]++
	if c.listed[kind] <= checkListMax {
		c.add(s, object, format, args...)
	}
}

// rest tells how many findings were not given one by one.
func (c *tableCheck) rest() {
	for kind, n := range c.listed {
		if n > checkListMax {
			c.add(Info, c.root, "%d more of: %s", n-checkListMax, kind)
		}
	}
}

// problem turns an error met while reading object into a finding. A context that ended is returned: the check is over.
func (c *tableCheck) problem(object string, err error) error {
	if err == nil {
		return nil
	}
	if cerr := c.ctx.Err(); cerr != nil {
		return cerr
	}
	c.found(FindingOf(object, err))
	return nil
}

// FindingOf is an error met while reading object as a finding.
func FindingOf(object string, err error) Finding {
	f := Finding{Severity: Error, Object: object, Offset: -1, What: err.Error()}
	var bad *errs.Corruption
	switch {
	case errors.As(err, &bad):
		f.Object, f.Offset, f.What = bad.Object, bad.Offset, bad.What
	case errors.Is(err, errs.ErrNotFound):
		f.What = "is missing: " + err.Error()
	case errors.Is(err, errs.ErrUnsupported), errors.Is(err, errs.ErrNewerFormat):
		f.Severity, f.What = Warning, "cannot be judged: "+err.Error()
	}
	return f
}

// stat reports whether an object is there, as a finding if not, and of the recorded size unless that is 0.
func (c *tableCheck) stat(s Severity, object string, size uint64) error {
	i, err := c.st.Stat(c.ctx, object)
	switch {
	case errors.Is(err, errs.ErrNotFound):
		c.some(s, "missing files", object, "is missing")
	case err != nil:
		return c.problem(object, err)
	case size > 0 && uint64(i.Size) != size:
		c.add(s, object, "%d bytes, %d are recorded", i.Size, size)
	}
	return nil
}

// unnamed lists files that no version on disk names, and unfinished ones.
func (c *tableCheck) unnamed() error {
	for _, dir := range []string{table.DirVersions, table.DirData, table.DirDeletions, table.DirTransactions, table.DirIndices} {
		if err := c.temporaries(c.root + "/" + dir); err != nil {
			return err
		}
	}
	if !c.complete {
		return nil
	}
	for _, k := range []struct {
		dir      string
		severity Severity
	}{{table.DirData, Warning}, {table.DirDeletions, Warning}, {table.DirIndices, Warning}, {table.DirTransactions, Info}} {
		err := c.st.List(c.ctx, c.root+"/"+k.dir, func(i objstore.Info) error {
			if !c.named[i.Name] {
				c.some(k.severity, "files in "+k.dir+" that no version names", i.Name, "no version names it: left over by a commit that failed")
			}
			return nil
		})
		if err := c.problem(c.root+"/"+k.dir, err); err != nil {
			return err
		}
	}
	return nil
}

func (c *tableCheck) temporaries(dir string) error {
	st, ok := c.st.(Temporaries)
	if !ok {
		return nil
	}
	err := st.Temporaries(c.ctx, dir, func(i objstore.Info) error {
		c.some(Warning, "unfinished files", i.Name, "unfinished file of a process that died; the next start removes it")
		return nil
	})
	return c.problem(dir, err)
}

// bind derives the key columns and the sharding; without them no shard can be judged.
func (c *tableCheck) bind() error {
	if c.ds == nil {
		return nil
	}
	s, err := c.ds.Schema().Arrow()
	if err != nil {
		return c.problem(c.root, err)
	}
	c.state.Schema = s
	if c.ds.MemWAL() == nil {
		c.add(Info, c.root, "the table has no MemWAL entry: it was not made for writing through shards")
		return nil
	}
	t := &Table{o: Options{Store: c.st}.withDefaults(), root: c.root}
	if c.sharder, err = t.bind(c.ds); err != nil {
		return c.problem(c.root, err)
	}
	c.t = t
	return nil
}
