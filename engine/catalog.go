package engine

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"lancesql/lsm"
)

// TableID identifies a table for its whole life; it survives renames and is never used again.
type TableID [16]byte

// String prints the id as a UUID.
func (id TableID) String() string { return uuid.UUID(id).String() }

// MarshalText implements encoding.TextMarshaler.
func (id TableID) MarshalText() ([]byte, error) { return uuid.UUID(id).MarshalText() }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *TableID) UnmarshalText(text []byte) error { return (*uuid.UUID)(id).UnmarshalText(text) }

func randomTableID() TableID { return TableID(uuid.New()) }

// DatabaseOptions are properties of a database that mean nothing to the engine (default collation, ...).
type DatabaseOptions map[string]string

// TableDef is what CreateTable needs to know. The engine keeps Schema and Shape: the caller must not change them
// afterwards.
type TableDef struct {
	Schema     *arrow.Schema // physical columns; the primary key is marked in field metadata
	Shape      []byte        // opaque to the engine, at most shapeBytesMax
	AutoColumn int           // physical position of the AUTO_INCREMENT column, -1 if there is none
	Sharding   lsm.Sharding  // how rows are spread; zero: one shard
	NextAuto   uint64        // the first generated AUTO_INCREMENT value is at least this; 0 means 1
	Indexes    []IndexDef    // secondary indexes
}

// TableEntry describes one table in a catalog image. It is immutable; a rename makes a new entry with the same ID.
type TableEntry struct {
	ID         TableID
	Database   string // as given at CREATE DATABASE
	Name       string // as given at CREATE TABLE
	Path       string // directory of the dataset in the store
	Schema     *arrow.Schema
	Shape      []byte
	AutoColumn int
	NextAuto   uint64
	Indexes    []IndexDef // read-only

	encoded []byte // the entry's JSON in a snapshot, so that a DDL statement encodes only what it changes
}

// Database is one database in a catalog image. It is immutable.
type Database struct {
	Name    string          // as given
	Options DatabaseOptions // read-only, may be nil

	dir    string // directory name in the store
	tables []*TableEntry
	byName map[string]*TableEntry // by folded name
}

// Catalog is an immutable image of all databases and tables. Look-ups do no I/O and wait for nothing. Names
// differing only in case are the same name.
type Catalog struct {
	// Version grows with every change. It is the number of the newest snapshot on disk, 0 before the first.
	Version uint64

	databases []*Database
	byName    map[string]*Database    // by folded name
	byID      map[TableID]*TableEntry // without tables whose directory is being renamed
	intents   []intent
}

// fold maps names that are the same name to one string.
func fold(name string) string { return strings.ToLower(name) }

// lookup finds a name by its folded form; it allocates nothing for a name of up to 64 ASCII bytes.
func lookup[V any](m map[string]V, name string) V {
	var buf [64]byte
	if len(name) > len(buf) {
		return m[fold(name)]
	}
	for i := range len(name) {
		c := name[i]
		if c >= utf8.RuneSelf {
			return m[fold(name)]
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[i] = c
	}
	return m[string(buf[:len(name)])]
}

// Database returns the database of that name, nil if there is none.
func (c *Catalog) Database(name string) *Database { return lookup(c.byName, name) }

// Databases returns all databases sorted by name. The slice is read-only.
func (c *Catalog) Databases() []*Database { return c.databases }

// TableByID returns the table's present entry. It is nil if the table has been dropped, and while its directory is
// being renamed: nothing may be opened there then.
func (c *Catalog) TableByID(id TableID) *TableEntry { return c.byID[id] }

// Table returns the table of that name, nil if there is none.
func (d *Database) Table(name string) *TableEntry { return lookup(d.byName, name) }

// Tables returns all tables sorted by name. The slice is read-only.
func (d *Database) Tables() []*TableEntry { return d.tables }

// newDatabase builds an immutable database; it takes ownership of tables and sorts it.
func newDatabase(name, dir string, options DatabaseOptions, tables []*TableEntry) *Database {
	d := &Database{Name: name, Options: options, dir: dir, tables: tables, byName: make(map[string]*TableEntry, len(tables))}
	slices.SortFunc(tables, func(a, b *TableEntry) int { return compareNames(a.Name, b.Name) })
	for _, t := range tables {
		d.byName[fold(t.Name)] = t
	}
	return d
}

// newCatalog builds an immutable image; it takes ownership of databases and sorts it.
func newCatalog(version uint64, databases []*Database, intents []intent) *Catalog {
	c := &Catalog{Version: version, databases: databases, byName: make(map[string]*Database, len(databases)),
		byID: make(map[TableID]*TableEntry), intents: intents}
	slices.SortFunc(databases, func(a, b *Database) int { return compareNames(a.Name, b.Name) })
	for _, d := range databases {
		c.byName[fold(d.Name)] = d
		for _, t := range d.tables {
			c.byID[t.ID] = t
		}
	}
	for _, in := range intents {
		if in.Kind == intentRename {
			delete(c.byID, in.ID)
		}
	}
	return c
}

func compareNames(a, b string) int {
	return cmp.Or(strings.Compare(fold(a), fold(b)), strings.Compare(a, b))
}

// draft is a catalog image being changed by one DDL statement.
type draft struct {
	version   uint64 // of the image it started from
	databases []*Database
	intents   []intent
}

func (c *Catalog) draft() *draft {
	return &draft{version: c.Version, databases: slices.Clone(c.databases), intents: slices.Clone(c.intents)}
}

// image finishes the draft as the next version.
func (d *draft) image() *Catalog { return newCatalog(d.version+1, d.databases, d.intents) }

func (d *draft) addIntent(in intent) { d.intents = append(d.intents, in) }

// removeIntents drops the intents of a table or database directory.
func (d *draft) removeIntents(id TableID) {
	d.intents = slices.DeleteFunc(d.intents, func(in intent) bool { return in.ID == id })
}

// setDatabase adds db, or puts it in place of the database of its name.
func (d *draft) setDatabase(db *Database) {
	d.removeDatabase(db.Name)
	d.databases = append(d.databases, db)
}

func (d *draft) removeDatabase(name string) {
	d.databases = slices.DeleteFunc(d.databases, func(db *Database) bool { return fold(db.Name) == fold(name) })
}

// change puts other tables into the database of that name.
func (d *draft) change(name string, tables func(old []*TableEntry) []*TableEntry) {
	for i, db := range d.databases {
		if fold(db.Name) == fold(name) {
			d.databases[i] = newDatabase(db.Name, db.dir, db.Options, tables(slices.Clone(db.tables)))
		}
	}
}

func (d *draft) addTable(t *TableEntry) {
	d.change(t.Database, func(old []*TableEntry) []*TableEntry { return append(old, t) })
}

func (d *draft) removeTable(t *TableEntry) {
	d.change(t.Database, func(old []*TableEntry) []*TableEntry {
		return slices.DeleteFunc(old, func(o *TableEntry) bool { return o.ID == t.ID })
	})
}
