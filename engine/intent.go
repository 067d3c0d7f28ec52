package engine

import (
	"fmt"

	"lancesql/internal/errs"
)

// intentKind says what an interrupted DDL statement was about to do on disk.
type intentKind string

// Kinds of intents. Each names every path it may touch; nothing else is ever removed. What a crash leaves, and
// what settle makes of it, by what it finds on disk:
//
//	create  Path is being filled for table ID, which no database lists yet.
//	        -> remove Path, forget.
//	drop    Path belonged to table ID, which no database lists any more.
//	        -> Path there, droppedPath(ID) not: rename it to droppedPath(ID); then as remove.
//	        -> droppedPath(ID) there: the rename was done; a Path found as well is left alone unless it is the
//	           old name of the same content.
//	remove  droppedPath(ID) is being removed. It is unique, so removing it again does no harm.
//	rename  table ID is being renamed from Path to To; its entry still has the old name.
//	        -> To there, Path not: the entry takes Database, Table and To.
//	        -> otherwise: forget; the rename did not happen.
//	rmdir   Path was the directory of a dropped database; droppedPath(ID) may hold it.
//	        -> remove it if nothing is in it.
const (
	intentCreate intentKind = "create"
	intentDrop   intentKind = "drop"
	intentRemove intentKind = "remove"
	intentRename intentKind = "rename"
	intentRmdir  intentKind = "rmdir"
)

// intent is an entry of a catalog snapshot that says which paths a DDL statement may have left in between.
type intent struct {
	Kind     intentKind `json:"kind"`
	ID       TableID    `json:"id"` // of the table; of rmdir, an id of its own
	Path     string     `json:"path,omitempty"`
	To       string     `json:"to,omitempty"`       // rename: the new path
	Database string     `json:"database,omitempty"` // rename: the new database
	Table    string     `json:"table,omitempty"`    // rename: the new name
}

// String names the intent in errors and logs.
func (in intent) String() string {
	if in.Path == "" {
		return fmt.Sprintf("%s %s", in.Kind, droppedPath(in.ID))
	}
	return fmt.Sprintf("%s %s", in.Kind, in.Path)
}

// touches reports whether the intent names the path.
func (in intent) touches(path string) bool { return path == in.Path || in.To != "" && path == in.To }

// validate reports an intent that we never write; a path that could lead anywhere else is the worst of them.
func (in intent) validate() error {
	ok := false
	switch in.Kind {
	case intentCreate, intentDrop:
		ok = isTablePath(in.Path) && in.To == "" && in.Database == "" && in.Table == ""
	case intentRemove:
		ok = in.Path == "" && in.To == "" && in.Database == "" && in.Table == ""
	case intentRename:
		ok = isTablePath(in.Path) && isTablePath(in.To) && in.Path != in.To &&
			checkName("database", in.Database) == nil && checkName("table", in.Table) == nil
	case intentRmdir:
		ok = isDirName(in.Path) && in.To == "" && in.Database == "" && in.Table == ""
	}
	if !ok || in.ID == (TableID{}) {
		return fmt.Errorf("intent %+v: %w", in, errs.ErrInvalid)
	}
	return nil
}
