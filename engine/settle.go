package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// settleLater settles what it can and logs the rest: the statement at hand does not depend on it, and the next
// statement or open tries again.
func (s *catalogStore) settleLater(ctx context.Context) {
	if err := s.settle(ctx); err != nil {
		s.log.Warn("unfinished statements remain in the catalog", "error", err)
	}
}

// settle brings the disk and the catalog together for every intent of the image, as intentKind describes, and
// commits what changed as one snapshot. It returns what could not be settled; those intents stay. It is idempotent
// at every step, so that a crash inside it is like one before it.
func (s *catalogStore) settle(ctx context.Context) error {
	d := s.image.Load().draft()
	var faults []error
	changed := false
	for _, in := range slices.Clone(d.intents) {
		if s.inUse[in.ID] {
			continue
		}
		done, err := s.perform(ctx, d, in)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", in, err))
		}
		changed = changed || done
	}
	if changed {
		if err := s.commit(ctx, d); err != nil {
			return errors.Join(append(faults, err)...)
		}
	}
	return errors.Join(append(faults, s.sweep(ctx))...)
}

// perform does what one intent asks for and notes the result in the draft; done is false if nothing changed.
func (s *catalogStore) perform(ctx context.Context, d *draft, in intent) (done bool, err error) {
	switch in.Kind {
	case intentCreate:
		err = s.store.RemoveAll(ctx, in.Path)
	case intentDrop:
		if err = s.moveAside(ctx, in.Path, in.ID); err == nil {
			d.removeIntents(in.ID)
			d.addIntent(intent{Kind: intentRemove, ID: in.ID})
			return true, nil
		}
	case intentRename:
		err = s.performRename(ctx, d, in)
	case intentRmdir:
		err = s.removeEmpty(ctx, d, in)
	default: // intentRemove is left to sweep, which must follow the commit
		return false, nil
	}
	if err != nil {
		return false, err
	}
	d.removeIntents(in.ID)
	return true, nil
}

// sweep removes what the newest snapshot says is being removed. The intents leave the image only: the next snapshot
// forgets them, and until then removing again does nothing.
func (s *catalogStore) sweep(ctx context.Context) error {
	c := s.image.Load()
	var faults []error
	rest := make([]intent, 0, len(c.intents))
	for _, in := range c.intents {
		if in.Kind == intentRemove {
			err := s.store.RemoveAll(ctx, droppedPath(in.ID))
			if err == nil {
				continue
			}
			faults = append(faults, fmt.Errorf("%s: %w", in, err))
		}
		rest = append(rest, in)
	}
	if len(rest) < len(c.intents) {
		s.image.Store(newCatalog(c.Version, slices.Clone(c.databases), rest))
	}
	return errors.Join(faults...)
}

// moveAside takes a dropped table's directory away from its name. Once droppedPath exists the directory was moved,
// and whatever is found under the name since then is not ours.
func (s *catalogStore) moveAside(ctx context.Context, from string, id TableID) error {
	to := droppedPath(id)
	there, err := s.exists(ctx, from)
	if err != nil || !there {
		return err
	}
	err = s.store.Rename(ctx, from, to)
	switch {
	case errors.Is(err, errs.ErrUnsupported):
		return s.store.RemoveAll(ctx, from) // Why: a store without directories; nothing can take the name meanwhile
	case errors.Is(err, errs.ErrExists):
		return s.removeAlias(ctx, from, to)
	}
	return err
}

// removeAlias removes old if it is what the crash of a rename left of the directory now called moved: a filesystem
// may show it under both names. Anything else called old belongs to somebody else and stays.
func (s *catalogStore) removeAlias(ctx context.Context, old, moved string) error {
	same, err := s.sameTree(ctx, old, moved)
	if err != nil {
		return err
	}
	if !same {
		s.log.Warn("directory is not ours and stays", "path", old)
		return nil
	}
	return s.store.RemoveAll(ctx, old)
}

// performRename decides a rename by where the directory is.
func (s *catalogStore) performRename(ctx context.Context, d *draft, in intent) error {
	from, err := s.exists(ctx, in.Path)
	if err != nil {
		return err
	}
	to, err := s.exists(ctx, in.To)
	if err != nil || !to {
		return err
	}
	if from {
		return s.removeAlias(ctx, in.To, in.Path)
	}
	return d.renameTable(in)
}

// renameTable gives a table the name and path of the intent.
func (d *draft) renameTable(in intent) error {
	for _, db := range d.databases {
		for _, old := range db.tables {
			if old.ID != in.ID {
				continue
			}
			t := *old
			t.Database, t.Name, t.Path = in.Database, in.Table, in.To
			if err := t.seal(); err != nil {
				return err
			}
			d.removeTable(old)
			d.addTable(&t)
			return nil
		}
	}
	return nil
}

// removeEmpty removes a database directory unless something is in it. It is moved aside first, so that nothing can
// be put into it between the look and the removal.
func (s *catalogStore) removeEmpty(ctx context.Context, d *draft, in intent) error {
	aside := droppedPath(in.ID)
	if there, err := s.exists(ctx, in.Path); err != nil {
		return err
	} else if there {
		if name, err := s.anyChild(ctx, in.Path); err != nil || name != "" {
			return errors.Join(err, s.keepDirectory(d, in, name))
		}
		err := s.store.Rename(ctx, in.Path, aside)
		if errors.Is(err, errs.ErrUnsupported) {
			return nil // Why: without directories an empty one is nothing
		}
		if err != nil && !errors.Is(err, errs.ErrExists) {
			return err
		}
	}
	name, err := s.anyChild(ctx, aside)
	if err != nil {
		return err
	}
	if name == "" {
		return s.store.RemoveAll(ctx, aside)
	}
	if err := s.store.Rename(ctx, aside, in.Path); err != nil {
		return err
	}
	return s.keepDirectory(d, in, name)
}

// keepDirectory ends an rmdir that met a file, unless a table of ours is still on its way out.
func (s *catalogStore) keepDirectory(d *draft, in intent, name string) error {
	for _, other := range d.intents {
		if other.Kind == intentDrop && path.Dir(other.Path) == in.Path {
			return fmt.Errorf("%s is still there: %w", other.Path, errs.ErrConflict)
		}
	}
	s.log.Warn("directory of a dropped database is not empty and stays", "path", in.Path, "file", name)
	return nil
}

// errFound ends a listing early.
var errFound = errors.New("found")

// exists reports whether the store has a directory or object of that name.
func (s *catalogStore) exists(ctx context.Context, name string) (bool, error) {
	found, err := s.sibling(ctx, name, func(other string) bool { return other == name })
	return found != "", err
}

// sibling returns the first name in the directory of name that matches, "" if there is none.
func (s *catalogStore) sibling(ctx context.Context, name string, match func(string) bool) (found string, err error) {
	parent := ""
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		parent = name[:i]
	}
	err = s.store.List(ctx, parent, func(i objstore.Info) error {
		if match(i.Name) {
			found = i.Name
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}

// anyChild returns the name of something in the directory, "" if it is empty or absent.
func (s *catalogStore) anyChild(ctx context.Context, dir string) (string, error) {
	var name string
	err := s.store.List(ctx, dir, func(i objstore.Info) error {
		name = i.Name
		return errFound
	})
	if errors.Is(err, errFound) {
		return name, nil
	}
	return "", err
}

// sameTree reports whether two directories hold objects of the same names and sizes.
func (s *catalogStore) sameTree(ctx context.Context, a, b string) (bool, error) {
	sizes := make(map[string]int64)
	err := objstore.Walk(ctx, s.store, a, func(i objstore.Info) error {
		sizes[strings.TrimPrefix(i.Name, a)] = i.Size
		return nil
	})
	if err != nil {
		return false, err
	}
	same := true
	err = objstore.Walk(ctx, s.store, b, func(i objstore.Info) error {
		key := strings.TrimPrefix(i.Name, b)
		size, ok := sizes[key]
		same = same && ok && size == i.Size
		delete(sizes, key)
		return nil
	})
	return same && len(sizes) == 0, err
}
