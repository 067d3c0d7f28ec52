package objstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lancesql/internal/clock"
	"lancesql/internal/errs"
)

// Mem is a Store in memory, with the behaviour of Local and none of its durability. Safe for concurrent use.
type Mem struct {
	clock clock.Clock   // immutable
	held  *atomic.Int64 // immutable: bytes of all objects, maybe of other stores too; nil: nobody counts

	mu   sync.RWMutex
	root *memNode // under mu, with everything below
}

// memNode is a directory if children is not nil, else an object. An object's fields never change: a new
// content is a new node, so readers use one without the lock.
type memNode struct {
	children map[string]*memNode
	data     []byte
	modTime  time.Time
}

// NewMem returns an empty store whose modification times come from the system clock.
func NewMem() *Mem { return NewMemClock(clock.System()) }

// NewMemClock returns an empty store whose modification times come from c.
func NewMemClock(c clock.Clock) *Mem {
	m := &Mem{clock: c}
	m.root = m.newDir()
	return m
}

// NewMemCounted returns an empty store that keeps in held what its objects add to it, in bytes; Clear takes it out again.
func NewMemCounted(c clock.Clock, held *atomic.Int64) *Mem {
	m := NewMemClock(c)
	m.held = held
	return m
}

// count adds the bytes of a node that has come (sign 1) or gone (sign -1).
func (m *Mem) count(n *memNode, sign int64) {
	if m.held == nil || n == nil {
		return
	}
	m.held.Add(sign * int64(len(n.data)))
	for _, child := range n.children {
		m.count(child, sign)
	}
}

// Clear removes everything.
func (m *Mem) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count(m.root, -1)
	m.root = m.newDir()
}

func (m *Mem) newDir() *memNode {
	return &memNode{children: map[string]*memNode{}, modTime: m.clock.Now()}
}

// lookLocked returns the node called name, nil if there is none. It needs mu.
func (m *Mem) lookLocked(name string) *memNode {
	node := m.root
	if name == "" {
		return node
	}
	for segment := range strings.SplitSeq(name, "/") {
		if node = node.children[segment]; node == nil {
			return nil
		}
	}
	return node
}

// makeDirLocked returns the directory called dir, creating it and its parents. It needs mu for writing.
func (m *Mem) makeDirLocked(dir string) (*memNode, error) {
	node := m.root
	if dir == "" {
		return node, nil
	}
	for segment := range strings.SplitSeq(dir, "/") {
		next := node.children[segment]
		if next == nil {
			next = m.newDir()
			node.children[segment] = next
		}
		if next.children == nil {
			return nil, errObjectInTheWay(dir)
		}
		node = next
	}
	return node, nil
}

// put installs data, which it keeps, under name.
func (m *Mem) put(name string, data []byte, replace bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.makeDirLocked(parentOf(name))
	if err != nil {
		return err
	}
	base := baseOf(name)
	if old := dir.children[base]; old != nil {
		if !replace {
			return errs.ErrExists
		}
		if old.children != nil {
			return errIsDirectory(name)
		}
	}
	m.count(dir.children[base], -1)
	node := &memNode{data: data, modTime: m.clock.Now()}
	m.count(node, 1)
	dir.children[base] = node
	return nil
}

// PutIfAbsent implements Store.
func (m *Mem) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if err := begin(ctx, name); err != nil {
		return fmt.Errorf("put %q: %w", name, err)
	}
	if err := m.put(name, bytes.Clone(data), false); err != nil {
		return fmt.Errorf("put %q: %w", name, err)
	}
	return nil
}

// Put implements Store.
func (m *Mem) Put(ctx context.Context, name string, data []byte) error {
	if err := begin(ctx, name); err != nil {
		return fmt.Errorf("put hint %q: %w", name, err)
	}
	if err := m.put(name, bytes.Clone(data), true); err != nil {
		return fmt.Errorf("put hint %q: %w", name, err)
	}
	return nil
}

// Create implements Store.
func (m *Mem) Create(ctx context.Context, name string) (Writer, error) {
	if err := begin(ctx, name); err != nil {
		return nil, fmt.Errorf("create %q: %w", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.makeDirLocked(parentOf(name)); err != nil {
		return nil, fmt.Errorf("create %q: %w", name, err)
	}
	return &memWriter{store: m, name: name}, nil
}

// memWriter collects an object of a Mem.
type memWriter struct {
	store *Mem
	name  string
	data  []byte
	ended bool
}

// Write implements io.Writer.
func (w *memWriter) Write(p []byte) (int, error) {
	if w.ended {
		return 0, fmt.Errorf("write %q: %w", w.name, errs.ErrClosed)
	}
	w.data = append(w.data, p...)
	return len(p), nil
}

// Commit implements Writer.
func (w *memWriter) Commit(ctx context.Context) error {
	if w.ended {
		return fmt.Errorf("commit %q: %w", w.name, errs.ErrClosed)
	}
	w.ended = true
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit %q: %w", w.name, err)
	}
	if err := w.store.put(w.name, w.data, false); err != nil {
		return fmt.Errorf("commit %q: %w", w.name, err)
	}
	return nil
}

// Abort implements Writer.
func (w *memWriter) Abort() error {
	w.ended, w.data = true, nil
	return nil
}

// object returns the object called name, which may be used without the lock.
func (m *Mem) object(name string) (*memNode, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	node := m.lookLocked(name)
	if node == nil || node.children != nil {
		return nil, errs.ErrNotFound
	}
	return node, nil
}

// ReadAt implements Store.
func (m *Mem) ReadAt(ctx context.Context, name string, p []byte, off int64) error {
	if err := begin(ctx, name); err != nil {
		return fmt.Errorf("read %q: %w", name, err)
	}
	node, err := m.object(name)
	if err != nil {
		return fmt.Errorf("read %q: %w", name, err)
	}
	if err := checkRange(len(p), off, int64(len(node.data))); err != nil {
		return fmt.Errorf("read %q: %w", name, err)
	}
	copy(p, node.data[off:])
	return nil
}

// ReadAll implements Store.
func (m *Mem) ReadAll(ctx context.Context, name string, limit int64) ([]byte, error) {
	if err := begin(ctx, name); err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	node, err := m.object(name)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	if err := checkLimit(int64(len(node.data)), limit); err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	return append(make([]byte, 0, len(node.data)), node.data...), nil
}

// Stat implements Store.
func (m *Mem) Stat(ctx context.Context, name string) (Info, error) {
	if err := begin(ctx, name); err != nil {
		return Info{}, fmt.Errorf("stat %q: %w", name, err)
	}
	node, err := m.object(name)
	if err != nil {
		return Info{}, fmt.Errorf("stat %q: %w", name, err)
	}
	return Info{Name: name, Size: int64(len(node.data)), ModTime: node.modTime}, nil
}

// List implements Store.
func (m *Mem) List(ctx context.Context, dir string, visit func(Info) error) error {
	if err := beginDir(ctx, dir); err != nil {
		return fmt.Errorf("list %q: %w", dir, err)
	}
	for _, info := range m.children(dir) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("list %q: %w", dir, err)
		}
		if err := visit(info); err != nil {
			return err
		}
	}
	return nil
}

// children copies a directory, so that visitors run without the lock.
func (m *Mem) children(dir string) []Info {
	m.mu.RLock()
	defer m.mu.RUnlock()
	node := m.lookLocked(dir)
	if node == nil {
		return nil
	}
	infos := make([]Info, 0, len(node.children))
	for base, child := range node.children {
		infos = append(infos, Info{
			Name: childOf(dir, base), Size: int64(len(child.data)), ModTime: child.modTime, Dir: child.children != nil,
		})
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return infos
}

// Delete implements Store.
func (m *Mem) Delete(ctx context.Context, name string) error {
	if err := begin(ctx, name); err != nil {
		return fmt.Errorf("delete %q: %w", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if node := m.lookLocked(name); node != nil && node.children == nil {
		m.count(node, -1)
		delete(m.lookLocked(parentOf(name)).children, baseOf(name))
	}
	return nil
}

// RemoveAll implements Store.
func (m *Mem) RemoveAll(ctx context.Context, dir string) error {
	if err := begin(ctx, dir); err != nil {
		return fmt.Errorf("remove all of %q: %w", dir, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if node := m.lookLocked(dir); node != nil {
		m.count(node, -1)
		delete(m.lookLocked(parentOf(dir)).children, baseOf(dir))
	}
	return nil
}

// Rename implements Store.
func (m *Mem) Rename(ctx context.Context, from, to string) error {
	if err := beginRename(ctx, from, to); err != nil {
		return fmt.Errorf("rename %q to %q: %w", from, to, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.renameLocked(from, to); err != nil {
		return fmt.Errorf("rename %q to %q: %w", from, to, err)
	}
	return nil
}

func (m *Mem) renameLocked(from, to string) error {
	node := m.lookLocked(from)
	if node == nil {
		return errs.ErrNotFound
	}
	if m.lookLocked(to) != nil {
		return errs.ErrExists
	}
	target, err := m.makeDirLocked(parentOf(to))
	if err != nil {
		return err
	}
	target.children[baseOf(to)] = node
	delete(m.lookLocked(parentOf(from)).children, baseOf(from))
	return nil
}

// SyncDir implements Store.
func (m *Mem) SyncDir(ctx context.Context, dir string) error { return beginDir(ctx, dir) }

// MakeDir implements Store.
func (m *Mem) MakeDir(ctx context.Context, dir string) error {
	if err := begin(ctx, dir); err != nil {
		return fmt.Errorf("make directory %q: %w", dir, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.makeDirLocked(dir); err != nil {
		return fmt.Errorf("make directory %q: %w", dir, err)
	}
	return nil
}
