package sqlbackend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"

	"lancesql/engine"
	"lancesql/internal/errs"
)

// collationOption is the database option holding the default collation's name.
const collationOption = "collation"

// Provider is the frontend's way to the databases of an engine. It is safe for concurrent use. Look-ups read the
// engine's catalog image and do no I/O (I4).
type Provider struct {
	engine    *engine.Engine
	temporary bool // of the temporary tables of a session

	mu    sync.RWMutex
	infos map[engine.TableID]*tableInfo // built at first use, replaced when the entry changes
	texts map[string]*texts             // by folded database name, as infos
	refs  *references                   // of the catalog image it names

	grants       *mysql_db.MySQLDb     // the accounts; set before the first session begins
	parser       *parser               // as grants, and so are the next two
	builtin      map[string]bool       // functions of the frontend's and ours, by folded name
	operators    *operators            // which run the statements of stored functions
	defaultRoles map[account][]account // of SET DEFAULT ROLE
}

var (
	_ sql.MutableDatabaseProvider  = (*Provider)(nil)
	_ sql.CollatedDatabaseProvider = (*Provider)(nil)
)

// NewProvider returns the provider of an engine.
func NewProvider(e *engine.Engine) *Provider {
	return &Provider{engine: e, infos: make(map[engine.TableID]*tableInfo), texts: make(map[string]*texts),
		defaultRoles: make(map[account][]account)}
}

// Engine returns the engine behind the provider.
func (p *Provider) Engine() *engine.Engine { return p.engine }

// Database implements sql.DatabaseProvider. sql.ErrDatabaseNotFound if there is none of that name.
func (p *Provider) Database(_ *sql.Context, name string) (sql.Database, error) {
	d := p.engine.Catalog().Database(name)
	if d == nil {
		if computed := p.computedDatabase(name); computed != nil {
			return computed, nil
		}
		return nil, sql.ErrDatabaseNotFound.New(name)
	}
	return &Database{provider: p, name: d.Name}, nil
}

// HasDatabase implements sql.DatabaseProvider.
func (p *Provider) HasDatabase(_ *sql.Context, name string) bool {
	return p.engine.Catalog().Database(name) != nil || p.computedDatabase(name) != nil
}

// AllDatabases implements sql.DatabaseProvider; sorted by name, without that of status tables.
func (p *Provider) AllDatabases(*sql.Context) []sql.Database {
	all := p.engine.Catalog().Databases()
	out := make([]sql.Database, len(all))
	for i, d := range all {
		out[i] = &Database{provider: p, name: d.Name}
	}
	return out
}

// CreateDatabase implements sql.MutableDatabaseProvider: the database gets the server's collation.
func (p *Provider) CreateDatabase(ctx *sql.Context, name string) error {
	return p.CreateCollatedDatabase(ctx, name, sql.Collation_Unspecified)
}

// CreateCollatedDatabase implements sql.CollatedDatabaseProvider.
func (p *Provider) CreateCollatedDatabase(ctx *sql.Context, name string, collation sql.CollationID) error {
	if err := connOf(ctx).implicitCommit(ctx); err != nil {
		return err
	}
	if isSysName(name) {
		return sql.ErrDatabaseExists.New(name)
	}
	if collation == sql.Collation_Unspecified {
		collation = serverCollation(ctx)
	}
	err := p.engine.CreateDatabase(ctx, name, map[string]string{collationOption: collation.Name()})
	if errors.Is(err, errs.ErrExists) {
		return sql.ErrDatabaseExists.New(name)
	}
	return err
}

// DropDatabase implements sql.MutableDatabaseProvider.
func (p *Provider) DropDatabase(ctx *sql.Context, name string) error {
	if err := connOf(ctx).implicitCommit(ctx); err != nil {
		return err
	}
	if computed := p.computedDatabase(name); computed != nil && p.engine.Catalog().Database(name) == nil {
		return errSysDatabase(computed.name)
	}
	err := p.engine.DropDatabase(ctx, name)
	if errors.Is(err, errs.ErrNotFound) {
		return sql.ErrDatabaseNotFound.New(name)
	}
	p.forgetDropped()
	return err
}

// info returns the frontend's view of a table, building it if the entry is new. It does no I/O.
func (p *Provider) info(ctx context.Context, entry *engine.TableEntry) (*tableInfo, error) {
	p.mu.RLock()
	t := p.infos[entry.ID]
	p.mu.RUnlock()
	if t != nil && t.entry == entry {
		return t, nil
	}
	t, err := newTableInfo(ctx, entry)
	if err != nil {
		return nil, err
	}
	if p.engine.Catalog().TableByID(entry.ID) != entry {
		return t, nil // Why not kept: only the statement that changes it sees that entry
	}
	p.mu.Lock()
	p.infos[entry.ID] = t
	p.mu.Unlock()
	return t, nil
}

// forgetDropped drops the views of tables that are gone.
func (p *Provider) forgetDropped() {
	cat := p.engine.Catalog()
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.texts {
		if cat.Database(name) == nil {
			delete(p.texts, name)
		}
	}
	for id := range p.infos {
		if cat.TableByID(id) == nil {
			delete(p.infos, id)
		}
	}
}

// FlushTables brings every row of the named tables, or of all tables, into their base tables and returns then.
// sql.ErrTableNotFound for a name that does not exist. A name is {database, table}; an empty database is the
// session's current one.
func (p *Provider) FlushTables(ctx *sql.Context, names [][2]string) error {
	if names == nil {
		return p.engine.FlushTables(ctx, nil)
	}
	cat := p.engine.Catalog()
	ids := make([]engine.TableID, 0, len(names))
	for _, n := range names {
		if n[0] == "" {
			n[0] = ctx.GetCurrentDatabase()
		}
		d := cat.Database(n[0])
		if d == nil || d.Table(n[1]) == nil {
			return sql.ErrTableNotFound.New(n[1])
		}
		ids = append(ids, d.Table(n[1]).ID)
	}
	return p.engine.FlushTables(ctx, ids)
}

// foldName maps names that MySQL takes for the same to one string.
func foldName(name string) string { return strings.ToLower(name) }

func wrapTable(entry *engine.TableEntry, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s.%s: %w", what, entry.Database, entry.Name, err)
}
