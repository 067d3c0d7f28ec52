package table

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/pb"
)

// BasePath is a place outside the table's directory where some of its objects lie.
// Spec: table layout, "Base paths".
type BasePath struct {
	ID   uint32 // 0 in an operation: the commit assigns the next one
	Name string // "" if it has none
	Path string // as its writer spelled it: an absolute path, a URI, or relative to the writer's working directory
	// DatasetRoot says that the place is laid out like a table, with data/ and _deletions/. Else data files lie in it.
	DatasetRoot bool
}

// Base is where a base path leads: a directory in a store.
type Base struct {
	Store objstore.Store
	Dir   string
}

// BasePaths returns the base paths of the version by id.
func (d *Dataset) BasePaths() []BasePath {
	out := make([]BasePath, 0, len(d.state.m.BasePaths))
	for _, p := range d.state.m.BasePaths {
		out = append(out, basePathFrom(p))
	}
	slices.SortFunc(out, func(a, b BasePath) int { return int(a.ID) - int(b.ID) })
	return out
}

func basePathFrom(p *pb.BasePath) BasePath {
	return BasePath{ID: p.GetId(), Name: p.GetName(), Path: p.GetPath(), DatasetRoot: p.GetIsDatasetRoot()}
}

func (p BasePath) proto() *pb.BasePath {
	out := &pb.BasePath{Id: p.ID, IsDatasetRoot: p.DatasetRoot, Path: p.Path}
	if p.Name != "" {
		out.Name = proto.String(p.Name)
	}
	return out
}

// object is one object of a table and the store that has it.
type object struct {
	st   objstore.Store
	name string
	key  string // for caches: the same for each handle, different for different objects
}

// place finds an object: below the table's root, or under the base path with that id.
func (d *Dataset) place(base *uint32, dir, name string) (object, error) {
	if base == nil {
		n := join(d.root, dir, name)
		return object{d.env.st, n, n}, nil
	}
	i := slices.IndexFunc(d.state.m.BasePaths, func(p *pb.BasePath) bool { return p.GetId() == *base })
	if i < 0 {
		return object{}, errs.Corrupt(d.state.object, -1, "%s lies under base path %d, which the version does not have", name, *base)
	}
	p := basePathFrom(d.state.m.BasePaths[i])
	place, err := d.resolve(p)
	if err != nil {
		return object{}, fmt.Errorf("%s under base path %q: %w", name, p.Path, err)
	}
	n := join(place.Dir, name)
	switch {
	case p.DatasetRoot:
		n = join(place.Dir, dir, name)
	case dir != dataDir:
		return object{}, errs.Corrupt(d.state.object, -1, "%s lies under base path %d, which has data files only", name, *base)
	}
	return object{place.Store, n, p.Path + "\x00" + n}, nil
}

// resolve says where a base path leads: where Options.Bases says, or in a branch to the main line or another branch.
func (d *Dataset) resolve(p BasePath) (Base, error) {
	if d.env.bases != nil {
		return d.env.bases(p.Path)
	}
	main, _ := d.mainRoot()
	if dir, ok := withinTable(main, p.Path); ok && d.Branch() != "" && p.DatasetRoot {
		return Base{d.env.st, dir}, nil
	}
	return Base{}, fmt.Errorf("nothing says where that is (Options.Bases): %w", errs.ErrUnsupported)
}

// withinTable finds a recorded path in the table whose main line is at main, recognised by the name of its directory.
func withinTable(main, recorded string) (dir string, ok bool) {
	name := path.Base(main)
	recorded = "/" + strings.Trim(recorded, "/")
	if main == "" || strings.Contains(recorded+"/", "/../") {
		return "", false
	}
	if strings.HasSuffix(recorded, "/"+name) {
		return main, true
	}
	if _, branch, ok := strings.Cut(recorded, "/"+name+"/"+treeDir+"/"); ok {
		return join(main, treeDir, branch), true
	}
	return "", false
}

// UpdateBases adds base paths. Two with one name, path or id, or one that the version has already, are refused with
// errs.ErrInvalid.
type UpdateBases struct {
	New []BasePath
}

// Kind implements Operation.
func (UpdateBases) Kind() Kind { return KindUpdateBases }

func (o UpdateBases) apply(_ context.Context, b *builder) error {
	if len(o.New) == 0 {
		return fmt.Errorf("no base path: %w", errs.ErrInvalid)
	}
	list := slices.Clone(b.m.BasePaths)
	op := &pb.UpdateBasesOperation{}
	for _, p := range o.New {
		next := uint32(1)
		for _, have := range list {
			if p.clashes(basePathFrom(have)) {
				return fmt.Errorf("base path %q at %q: it is there already: %w", p.Name, p.Path, errs.ErrInvalid)
			}
			next = max(next, have.GetId()+1)
		}
		switch {
		case p.Path == "":
			return fmt.Errorf("base path %q without a path: %w", p.Name, errs.ErrInvalid)
		case p.ID == 0 && next == 0:
			return fmt.Errorf("base path %q: no id is left: %w", p.Name, errs.ErrLimit)
		case p.ID == 0:
			p.ID = next
		}
		list, op.NewBases = append(list, p.proto()), append(op.NewBases, p.proto())
	}
	b.m.BasePaths = list
	b.txn.Operation = &pb.Transaction_UpdateBases{UpdateBases: op}
	return nil
}

func (p BasePath) clashes(q BasePath) bool {
	return p.ID != 0 && p.ID == q.ID || p.Name != "" && p.Name == q.Name || p.Path == q.Path
}

func (o UpdateBases) against(_ *state, other *Transaction) verdict {
	if p, ok := other.Op.(UpdateBases); ok {
		for _, mine := range o.New {
			if slices.ContainsFunc(p.New, mine.clashes) {
				return incompatible
			}
		}
	}
	return passes
}

func updateBasesFrom(p *pb.UpdateBasesOperation) UpdateBases {
	var o UpdateBases
	for _, b := range p.GetNewBases() {
		o.New = append(o.New, basePathFrom(b))
	}
	return o
}
