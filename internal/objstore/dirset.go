package objstore

import (
	"strings"
	"sync"
)

// dirCountMax bounds the directories a dirSet remembers: some hundred bytes each, ten for a table.
const dirCountMax = 1 << 20

// dirSet remembers which directories are durable: synced in their parents, and these in theirs, up to the
// root, by this process.
//
// That a directory exists proves nothing: another goroutine, or a process that was killed, may have
// created it without having synced its parent yet. An object acknowledged in such a directory would be lost
// with it.
type dirSet struct {
	mu    sync.Mutex
	epoch uint64   // under mu; changed by every drop
	root  *dirNode // under mu; nil = empty
	count int      // under mu; nodes added since the last reset
}

// dirNode is a durable directory. That of a child implies that of its parents.
type dirNode struct{ children map[string]*dirNode }

// has reports whether dir is known to be durable, and a stamp for add.
func (s *dirSet) has(dir string) (durable bool, stamp uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	node := s.root
	if dir == "" {
		return true, s.epoch
	}
	for segment := range strings.SplitSeq(dir, "/") {
		if node == nil {
			return false, s.epoch
		}
		node = node.children[segment]
	}
	return node != nil, s.epoch
}

// add records that dir and its parents are durable, unless a directory was dropped since the stamp was
// taken: then it may be another one by now.
func (s *dirSet) add(dir string, stamp uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != stamp {
		return
	}
	if s.root == nil || s.count > dirCountMax {
		s.root, s.count = &dirNode{}, 0
	}
	node := s.root
	for segment := range strings.SplitSeq(dir, "/") {
		next := node.children[segment]
		if next == nil {
			if node.children == nil {
				node.children = map[string]*dirNode{}
			}
			next = &dirNode{}
			node.children[segment] = next
			s.count++
		}
		node = next
	}
}

// drop forgets dir and everything below it.
func (s *dirSet) drop(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	if dir == "" {
		s.root = nil
		return
	}
	node := s.root
	for segment := range strings.SplitSeq(parentOf(dir), "/") {
		if node == nil {
			return
		}
		if segment != "" {
			node = node.children[segment]
		}
	}
	if node != nil {
		delete(node.children, baseOf(dir))
	}
}
