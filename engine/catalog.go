package engine

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"
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

// TableDef is what CreateTable needs to know. The engine keeps all of it and copies nothing: the caller must not
// change Schema or Shape afterwards.
type TableDef struct {
	Schema     *arrow.Schema // physical columns; the primary key is marked in field metadata
	Shape      []byte        // opaque to the engine, at most shapeBytesMax bytes
	AutoColumn int           // physical position of the AUTO_INCREMENT column, -1 if there is none
	NextAuto   uint64        // smallest value the first generated AUTO_INCREMENT may take; 0 and 1 are the same
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

	encoded []byte // the entry's JSON in a snapshot, so that a DDL statement encodes only what it changes
}

// Database is one database in a catalog image. It is immutable.
type Database struct {
	Name    string          // as given
	Options DatabaseOptions // read-only

	dir    string // directory name in the store
	tables []*TableEntry
	byName map[string]*TableEntry // by folded name
}

// Catalog is an immutable image of all databases and tables. Look-ups do no I/O and wait for nothing. Names
// differing only in case are the same name.
type Catalog struct {
	Version uint64 // number of the snapshot that holds this image; 0 = nothing was ever written

	databases []*Database
	byName    map[string]*Database // by folded name
	byID      map[TableID]*TableEntry
	intents   []intent
}

// fold maps names that are the same name to one string.
func fold(name string) string { return strings.ToLower(name) }

// lookup finds name in m without allocating when the name is short and ASCII.
func lookup[V any](m map[string]V, name string) V {
	var buf [64]byte
	if len(name) > len(buf) {
		return m[fold(name)]
	}
	b := buf[:len(name)]
	for i := range len(name) {
		c := name[i]
		if c >= utf8.RuneSelf {
			return m[fold(name)]
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		b[i] = c
	}
	return m[string(b)]
}

// Database returns the database of that name, nil if there is none.
func (c *Catalog) Database(name string) *Database { return lookup(c.byName, name) }

// Databases returns all databases sorted by name. The slice is read-only.
func (c *Catalog) Databases() []*Database { return c.databases }

// TableByID returns the table's present entry, nil if it has been dropped.
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
	return c
}

func compareNames(a, b string) int {
	return cmp.Or(strings.Compare(fold(a), fold(b)), strings.Compare(a, b))
}

// withDatabase returns the next image with d added, or in place of the database of the same name.
func (c *Catalog) withDatabase(d *Database) *Catalog {
	return newCatalog(c.Version+1, append(without(c.databases, d.Name), d), c.intents)
}

// withoutDatabase returns the next image without the database of that name.
func (c *Catalog) withoutDatabase(name string) *Catalog {
	return newCatalog(c.Version+1, without(c.databases, name), c.intents)
}

// withIntents returns the next image with other intents.
func (c *Catalog) withIntents(intents []intent) *Catalog {
	next := *c
	next.Version++
	next.intents = intents
	return &next
}

func without(list []*Database, name string) []*Database {
	out := make([]*Database, 0, len(list)+1)
	for _, d := range list {
		if fold(d.Name) != fold(name) {
			out = append(out, d)
		}
	}
	return out
}

// withTable returns a copy of the database with t added.
func (d *Database) withTable(t *TableEntry) *Database {
	return newDatabase(d.Name, d.dir, d.Options, append(slices.Clone(d.tables), t))
}

// withoutTable returns a copy of the database without the table of that id.
func (d *Database) withoutTable(id TableID) *Database {
	return newDatabase(d.Name, d.dir, d.Options, slices.DeleteFunc(slices.Clone(d.tables), func(t *TableEntry) bool { return t.ID == id }))
}
