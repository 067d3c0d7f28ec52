package sqlbackend

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"lancesql/engine"
	"lancesql/internal/errs"
)

// Views, triggers, routines and events are texts. A database keeps each as one of its options in the catalog, named
// by its kind and its name in lower case; the frontend parses and runs them.
var (
	_ sql.ViewDatabase            = (*Database)(nil)
	_ sql.TriggerDatabase         = (*Database)(nil)
	_ sql.StoredProcedureDatabase = (*Database)(nil)
	_ sql.EventDatabase           = (*Database)(nil)
)

const erTriggerExists = 1359 // MySQL's number; the frontend has no error for it

// textKind starts the name of an option that holds a text.
type textKind string

const (
	viewText      textKind = "view:"
	triggerText   textKind = "trigger:"
	procedureText textKind = "procedure:"
	functionText  textKind = "function:"
	eventText     textKind = "event:"
)

// storedText is the JSON of an option. Times are UTC.
type storedText struct {
	Name     string               `json:"name"`
	Order    uint64               `json:"order"`            // grows with each text of the database
	Text     string               `json:"text,omitempty"`   // the CREATE statement
	Select   string               `json:"select,omitempty"` // of a view
	SQLMode  string               `json:"sql_mode,omitempty"`
	Created  time.Time            `json:"created,omitzero"`
	Modified time.Time            `json:"modified,omitzero"`
	Event    *sql.EventDefinition `json:"event,omitempty"`
}

// texts are the texts of a database, decoded. They are immutable.
type texts struct {
	of        *engine.Database
	byKind    map[textKind][]storedText // in the order in which they were made
	functions sync.Map                  // those read so far: folded name to *storedFunction
	triggers  atomic.Pointer[[]*trigger]
}

func (t *texts) find(kind textKind, name string) *storedText {
	for i := range t.byKind[kind] {
		if strings.EqualFold(t.byKind[kind][i].Name, name) {
			return &t.byKind[kind][i]
		}
	}
	return nil
}

func newTexts(d *engine.Database, options engine.DatabaseOptions) (*texts, error) {
	t := &texts{of: d, byKind: make(map[textKind][]storedText)}
	for key, value := range options {
		kind, _, ok := strings.Cut(key, ":")
		if !ok || textKind(kind+":") == statisticsText {
			continue
		}
		var s storedText
		if err := json.Unmarshal([]byte(value), &s); err != nil {
			return nil, errs.Corrupt("catalog", -1, "option %q of database %s: %v", key, d.Name, err)
		}
		t.byKind[textKind(kind+":")] = append(t.byKind[textKind(kind+":")], s)
	}
	for _, list := range t.byKind {
		slices.SortFunc(list, func(a, b storedText) int { return cmp.Compare(a.Order, b.Order) })
	}
	return t, nil
}

// texts returns the texts of a database, decoding them if the database has changed. It does no I/O.
func (d *Database) texts(ctx *sql.Context) (*texts, error) {
	e, err := d.entry(ctx)
	if err != nil {
		return nil, err
	}
	p, key := d.provider, foldName(d.name)
	p.mu.RLock()
	t := p.texts[key]
	p.mu.RUnlock()
	if t != nil && t.of == e {
		return t, nil
	}
	if t, err = newTexts(e, e.Options); err != nil || p.engine.Catalog().Database(d.name) != e {
		return t, err // Why not kept: nobody else sees that catalog
	}
	p.mu.Lock()
	p.texts[key] = t
	p.mu.Unlock()
	return t, nil
}

// saveText stores a text under its name; rename is its old name if that is another. taken is the error if the name is
// in use, nil if a text of that name is to be replaced; missing the error if there is none to replace.
func (d *Database) saveText(ctx *sql.Context, kind textKind, s storedText, rename string, taken, missing error) error {
	return d.changeTexts(ctx, func(old *texts) (engine.DatabaseOptions, error) {
		before := old.find(kind, cmp.Or(rename, s.Name))
		other := old.find(kind, s.Name)
		switch {
		case taken != nil && other != nil && (missing == nil || other != before):
			return nil, taken
		case missing != nil && before == nil:
			return nil, missing
		}
		for _, list := range old.byKind {
			for _, o := range list {
				s.Order = max(s.Order, o.Order+1)
			}
		}
		changes := engine.DatabaseOptions{}
		if before != nil {
			s.Order = before.Order
			changes[string(kind)+foldName(before.Name)] = ""
		}
		b, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("encode %s%s: %w", kind, s.Name, err)
		}
		changes[string(kind)+foldName(s.Name)] = string(b)
		return changes, nil
	})
}

// dropText removes a text; missing is the error if there is none.
func (d *Database) dropText(ctx *sql.Context, kind textKind, name string, missing error) error {
	return d.changeTexts(ctx, func(old *texts) (engine.DatabaseOptions, error) {
		if old.find(kind, name) == nil {
			return nil, missing
		}
		return engine.DatabaseOptions{string(kind) + foldName(name): ""}, nil
	})
}

func (d *Database) changeTexts(ctx *sql.Context, change func(*texts) (engine.DatabaseOptions, error)) error {
	if err := connOf(ctx).implicitCommit(ctx); err != nil {
		return err
	}
	e, err := d.entry(ctx)
	if err != nil {
		return err
	}
	apply := func(now engine.DatabaseOptions) (engine.DatabaseOptions, error) {
		old, err := newTexts(e, now)
		if err != nil {
			return nil, err
		}
		return change(old)
	}
	return d.provider.alter(ctx, func(a *engine.Alteration) error { return a.ChangeOptions(d.name, apply) })
}

// CreateView implements sql.ViewDatabase.
func (d *Database) CreateView(ctx *sql.Context, name string, selectStatement, createViewStmt string) error {
	e, err := d.entry(ctx)
	if err != nil {
		return err
	}
	if e.Table(name) != nil {
		return sql.ErrTableAlreadyExists.New(name)
	}
	if err := connOf(ctx).refuseTemporary(ctx); err != nil {
		return err
	}
	s := storedText{Name: name, Text: originalText(createViewStmt), Select: originalText(selectStatement), SQLMode: sql.LoadSqlMode(ctx).String()}
	return d.saveText(ctx, viewText, s, "", sql.ErrExistingView.New(d.name, name), nil)
}

// DropView implements sql.ViewDatabase.
func (d *Database) DropView(ctx *sql.Context, name string) error {
	err := d.dropText(ctx, viewText, name, sql.ErrViewDoesNotExist.New(d.name, name))
	if c := connOf(ctx); c != nil && c.stmt.mustExist && sql.ErrViewDoesNotExist.Is(err) {
		return sql.ErrTableNotFound.New(d.name + "." + name)
	}
	return err
}

func (s *storedText) view() sql.ViewDefinition {
	return sql.ViewDefinition{Name: s.Name, TextDefinition: s.Select, CreateViewStatement: s.Text, SqlMode: s.SQLMode}
}

// GetViewDefinition implements sql.ViewDatabase.
func (d *Database) GetViewDefinition(ctx *sql.Context, name string) (sql.ViewDefinition, bool, error) {
	t, err := d.texts(ctx)
	if err != nil {
		return sql.ViewDefinition{}, false, err
	}
	s := t.find(viewText, name)
	if s == nil {
		return sql.ViewDefinition{}, false, nil
	}
	return s.view(), true, nil
}

// AllViews implements sql.ViewDatabase.
func (d *Database) AllViews(ctx *sql.Context) ([]sql.ViewDefinition, error) {
	return listTexts(ctx, d, viewText, (*storedText).view)
}

func listTexts[T any](ctx *sql.Context, d *Database, kind textKind, as func(*storedText) T) ([]T, error) {
	t, err := d.texts(ctx)
	if err != nil {
		return nil, err
	}
	list := t.byKind[kind]
	out := make([]T, len(list))
	for i := range list {
		out[i] = as(&list[i])
	}
	return out, nil
}

// GetTriggers implements sql.TriggerDatabase, in the order in which they were made.
func (d *Database) GetTriggers(ctx *sql.Context) ([]sql.TriggerDefinition, error) {
	t, err := d.texts(ctx)
	if err != nil {
		return nil, err
	}
	c := connOf(ctx)
	if c.dropsTemporary() {
		return nil, nil // which have none
	}
	if c != nil && c.stmt.current && !c.stmt.building {
		return d.standIns(ctx, c.stmt.marked) // Why: the frontend would put them into the plan as well (see fireTriggers)
	}
	list := make([]sql.TriggerDefinition, 0, len(t.byKind[triggerText]))
	for i := range t.byKind[triggerText] {
		s := &t.byKind[triggerText][i]
		if !c.aboutTemporary(ctx, d.name, s) {
			list = append(list, sql.TriggerDefinition{Name: s.Name, CreateStatement: s.Text, CreatedAt: s.Created, SqlMode: s.SQLMode})
		}
	}
	return list, nil
}

// CreateTrigger implements sql.TriggerDatabase.
func (d *Database) CreateTrigger(ctx *sql.Context, def sql.TriggerDefinition) error {
	if err := connOf(ctx).refuseTemporary(ctx); err != nil {
		return err
	}
	if err := d.checkTrigger(ctx, def); err != nil {
		return err
	}
	s := storedText{Name: def.Name, Text: originalText(def.CreateStatement), SQLMode: def.SqlMode, Created: def.CreatedAt}
	return d.saveText(ctx, triggerText, s, "", mysql.NewSQLError(erTriggerExists, mysql.SSUnknownSQLState, "Trigger already exists"), nil)
}

// DropTrigger implements sql.TriggerDatabase.
func (d *Database) DropTrigger(ctx *sql.Context, name string) error {
	return d.dropText(ctx, triggerText, name, sql.ErrTriggerDoesNotExist.New(name))
}

func (s *storedText) procedure() sql.StoredProcedureDetails {
	return sql.StoredProcedureDetails{Name: s.Name, CreateStatement: s.Text, CreatedAt: s.Created, ModifiedAt: s.Modified, SqlMode: s.SQLMode}
}

// GetStoredProcedure implements sql.StoredProcedureDatabase.
func (d *Database) GetStoredProcedure(ctx *sql.Context, name string) (sql.StoredProcedureDetails, bool, error) {
	t, err := d.texts(ctx)
	if err != nil {
		return sql.StoredProcedureDetails{}, false, err
	}
	s := t.find(procedureText, name)
	if s == nil {
		return sql.StoredProcedureDetails{}, false, nil
	}
	return s.procedure(), true, nil
}

// GetStoredProcedures implements sql.StoredProcedureDatabase.
func (d *Database) GetStoredProcedures(ctx *sql.Context) ([]sql.StoredProcedureDetails, error) {
	return listTexts(ctx, d, procedureText, (*storedText).procedure)
}

// SaveStoredProcedure implements sql.StoredProcedureDatabase.
func (d *Database) SaveStoredProcedure(ctx *sql.Context, spd sql.StoredProcedureDetails) error {
	r, err := d.provider.parser.parseRoutine(ctx, spd.CreateStatement, sql.NewSqlModeFromString(spd.SqlMode).ParserOptions())
	if err != nil {
		return err
	}
	if r == nil {
		return sql.ErrProcedureCreateStatementInvalid.New(spd.CreateStatement)
	}
	if err := r.body.Check(); err != nil {
		return err
	}
	s := storedText{Name: spd.Name, Text: originalText(spd.CreateStatement), SQLMode: spd.SqlMode, Created: spd.CreatedAt, Modified: spd.ModifiedAt}
	return d.saveText(ctx, procedureText, s, "", sql.ErrStoredProcedureAlreadyExists.New(spd.Name), nil)
}

// DropStoredProcedure implements sql.StoredProcedureDatabase.
func (d *Database) DropStoredProcedure(ctx *sql.Context, name string) error {
	return d.dropText(ctx, procedureText, name, sql.ErrStoredProcedureDoesNotExist.New(name))
}

func (s *storedText) event() sql.EventDefinition {
	if s.Event == nil {
		return sql.EventDefinition{Name: s.Name}
	}
	return *s.Event
}

// GetEvent implements sql.EventDatabase.
func (d *Database) GetEvent(ctx *sql.Context, name string) (sql.EventDefinition, bool, error) {
	t, err := d.texts(ctx)
	if err != nil {
		return sql.EventDefinition{}, false, err
	}
	s := t.find(eventText, name)
	if s == nil {
		return sql.EventDefinition{}, false, nil
	}
	return s.event(), true, nil
}

// GetEvents implements sql.EventDatabase.
func (d *Database) GetEvents(ctx *sql.Context) ([]sql.EventDefinition, interface{}, error) {
	list, err := listTexts(ctx, d, eventText, (*storedText).event)
	return list, nil, err
}

// SaveEvent implements sql.EventDatabase.
func (d *Database) SaveEvent(ctx *sql.Context, ed sql.EventDefinition) (bool, error) {
	err := d.saveText(ctx, eventText, storedText{Name: ed.Name, Event: &ed}, "", sql.ErrEventAlreadyExists.New(ed.Name), nil)
	return err == nil && ed.Status == sql.EventStatus_Enable.String(), err
}

// DropEvent implements sql.EventDatabase.
func (d *Database) DropEvent(ctx *sql.Context, name string) error {
	return d.dropText(ctx, eventText, name, sql.ErrEventDoesNotExist.New(name))
}

// UpdateEvent implements sql.EventDatabase.
func (d *Database) UpdateEvent(ctx *sql.Context, originalName string, ed sql.EventDefinition) (bool, error) {
	err := d.saveText(ctx, eventText, storedText{Name: ed.Name, Event: &ed}, originalName,
		sql.ErrEventAlreadyExists.New(ed.Name), sql.ErrEventDoesNotExist.New(originalName))
	return err == nil && ed.Status == sql.EventStatus_Enable.String(), err
}

// UpdateLastExecuted implements sql.EventDatabase.
func (d *Database) UpdateLastExecuted(ctx *sql.Context, name string, at time.Time) error {
	ed, ok, err := d.GetEvent(ctx, name)
	if err != nil {
		return err
	}
	if !ok {
		return sql.ErrEventDoesNotExist.New(name)
	}
	ed.LastExecuted = at
	return d.saveText(ctx, eventText, storedText{Name: ed.Name, Event: &ed}, "", nil, sql.ErrEventDoesNotExist.New(name))
}

// NeedsToReloadEvents implements sql.EventDatabase.
func (d *Database) NeedsToReloadEvents(*sql.Context, interface{}) (bool, error) { return false, nil }
