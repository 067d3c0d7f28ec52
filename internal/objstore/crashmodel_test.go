package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// absent stands for "there is no object" among the contents a name may have.
const absent = "\x00absent"

// model says what may be found after a crash: for each name the contents it may have, for each directory
// whether it must exist.
type model struct {
	may  map[string]map[string]bool
	dirs map[string]bool
	// moving is the rename in progress, nil if there is none.
	moving *moving
}

// moving is a rename that was begun: of the names that must exist, all must be there with their old names or
// all with their new ones.
type moving struct {
	step   step
	from   string
	oldNew [][2]string
}

func newModel() *model { return &model{may: map[string]map[string]bool{}, dirs: map[string]bool{}} }

// names returns the known names in dir or below, sorted.
func (m *model) names(dir string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(m.may)) {
		if name == dir || dir == "" || strings.HasPrefix(name, dir+"/") {
			names = append(names, name)
		}
	}
	return names
}

// allow adds a content to those a name may have.
func (m *model) allow(name, content string) {
	if m.may[name] == nil {
		m.may[name] = map[string]bool{absent: true}
	}
	m.may[name][content] = true
}

// fix says what a name has from now on.
func (m *model) fix(name, content string) { m.may[name] = map[string]bool{content: true} }

// step is one operation on a store and its effect on the model when it begins and when it is acknowledged.
type step struct {
	what  string
	run   func(ctx context.Context, st objstore.Store) error
	begin func(m *model)
	ack   func(m *model)
}

func putStep(name, content string) step {
	return step{
		what: "put " + name,
		run: func(ctx context.Context, st objstore.Store) error {
			return st.PutIfAbsent(ctx, name, []byte(content))
		},
		begin: func(m *model) { m.allow(name, content) },
		ack:   func(m *model) { m.fix(name, content) },
	}
}

func hintStep(name, content string) step {
	s := putStep(name, content)
	s.what = "hint " + name
	s.run = func(ctx context.Context, st objstore.Store) error { return st.Put(ctx, name, []byte(content)) }
	return s
}

func streamStep(name, content string) step {
	s := putStep(name, content)
	s.what = "stream " + name
	s.run = func(ctx context.Context, st objstore.Store) error {
		w, err := st.Create(ctx, name)
		if err != nil {
			return err
		}
		if _, err := w.Write([]byte(content)); err != nil {
			return errors.Join(err, w.Abort())
		}
		return w.Commit(ctx)
	}
	return s
}

func deleteStep(name string) step {
	return step{
		what:  "delete " + name,
		run:   func(ctx context.Context, st objstore.Store) error { return st.Delete(ctx, name) },
		begin: func(m *model) { m.allow(name, absent) },
		ack:   func(*model) {}, // removed lazily: it may come back
	}
}

// syncDirStep makes the removals of some objects of dir final.
func syncDirStep(dir string, gone ...string) step {
	return step{
		what:  "sync " + dir,
		run:   func(ctx context.Context, st objstore.Store) error { return st.SyncDir(ctx, dir) },
		begin: func(*model) {},
		ack: func(m *model) {
			for _, name := range gone {
				m.fix(name, absent)
			}
		},
	}
}

func mkdirStep(dir string) step {
	return step{
		what:  "mkdir " + dir,
		run:   func(ctx context.Context, st objstore.Store) error { return st.MakeDir(ctx, dir) },
		begin: func(*model) {},
		ack:   func(m *model) { m.dirs[dir] = true },
	}
}

func removeAllStep(dir string) step {
	return step{
		what: "remove all " + dir,
		run:  func(ctx context.Context, st objstore.Store) error { return st.RemoveAll(ctx, dir) },
		begin: func(m *model) {
			for _, name := range m.names(dir) {
				m.allow(name, absent)
			}
		},
		ack: func(m *model) {
			for _, name := range m.names(dir) {
				m.fix(name, absent)
			}
		},
	}
}

func renameStep(from, to string) step {
	moved := func(name string) string { return to + strings.TrimPrefix(name, from) }
	s := step{
		what: "rename " + from + " to " + to,
		run:  func(ctx context.Context, st objstore.Store) error { return st.Rename(ctx, from, to) },
	}
	before := map[string]map[string]bool{}
	s.begin = func(m *model) {
		m.moving = &moving{step: s, from: from}
		for _, name := range m.names(from) {
			before[name] = maps.Clone(m.may[name])
			if !before[name][absent] {
				m.moving.oldNew = append(m.moving.oldNew, [2]string{name, moved(name)})
			}
			for content := range before[name] {
				m.allow(moved(name), content)
			}
			m.allow(name, absent)
		}
	}
	s.ack = func(m *model) {
		for name, contents := range before {
			m.may[moved(name)] = contents
			m.fix(name, absent)
		}
		m.moving = nil
	}
	return s
}

// check opens a store over what a crash left and returns how it differs from the model.
func (m *model) check(ctx context.Context, fs vfs.FS, root string) error {
	st, err := objstore.OpenLocal(fs, root)
	if err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	defer st.Close()
	for _, name := range m.names("") {
		content, err := read(ctx, st, name)
		if err != nil {
			return err
		}
		if !m.may[name][content] {
			return fmt.Errorf("%s is %.40q, which is none of the %d possible contents", name, content, len(m.may[name]))
		}
	}
	for dir := range m.dirs {
		if info, err := fs.Stat(fs.PathJoin(root, dir)); err != nil || !info.IsDir() {
			return fmt.Errorf("directory %s: %v", dir, err)
		}
	}
	if err := m.checkMoving(ctx, st); err != nil {
		return err
	}
	if err := objstore.Walk(ctx, st, "", func(info objstore.Info) error {
		if m.may[info.Name] == nil {
			return fmt.Errorf("unknown object %s", info.Name)
		}
		return nil
	}); err != nil {
		return err
	}
	return sweepEverything(ctx, st, fs, root)
}

// checkMoving checks that a rename in progress left a complete tree under one of its names.
func (m *model) checkMoving(ctx context.Context, st objstore.Store) error {
	if m.moving == nil {
		return nil
	}
	complete := [2]bool{true, true}
	for _, names := range m.moving.oldNew {
		for i, name := range names {
			content, err := read(ctx, st, name)
			if err != nil {
				return err
			}
			complete[i] = complete[i] && content != absent
		}
	}
	if !complete[0] && !complete[1] {
		return fmt.Errorf("%s: neither is complete", m.moving.step.what)
	}
	return nil
}

// read returns an object's content, absent if there is none.
func read(ctx context.Context, st objstore.Store, name string) (string, error) {
	data, err := st.ReadAll(ctx, name, 1<<30)
	if errors.Is(err, errs.ErrNotFound) {
		return absent, nil
	}
	return string(data), err
}

// sweepEverything removes the temporaries of the crashed store and checks that none is left.
func sweepEverything(ctx context.Context, st *objstore.Local, fs vfs.FS, root string) error {
	dirs := []string{""}
	for len(dirs) > 0 {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		if _, err := st.SweepTemp(ctx, dir); err != nil {
			return err
		}
		names, err := fs.List(fs.PathJoin(root, dir))
		if err != nil {
			return err
		}
		for _, name := range names {
			if strings.HasPrefix(name, ".tmp") {
				return fmt.Errorf("sweep of %q left %s", dir, name)
			}
		}
		if err := st.List(ctx, dir, func(info objstore.Info) error {
			if info.Dir {
				dirs = append(dirs, info.Name)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
