package sched

import "slices"

// State is a job that waits, runs or both.
type State struct {
	Kind      Kind
	Table     string
	Queued    bool
	Running   bool
	Paused    bool // its table's jobs do not start
	Conflicts int  // in a row
	Failures  int  // in a row
}

// List returns what is queued or running, in the order of the queue.
func (s *Scheduler) List() []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	var tasks []*task
	names := make(map[*task]taskKey)
	for key, t := range s.tasks {
		if t.queued || t.running {
			tasks = append(tasks, t)
			names[t] = key
		}
	}
	slices.SortFunc(tasks, func(a, b *task) int {
		switch {
		case a.goesBefore(b):
			return -1
		case b.goesBefore(a):
			return 1
		}
		return 0
	})
	out := make([]State, len(tasks))
	for i, t := range tasks {
		key := names[t]
		out[i] = State{Kind: key.kind, Table: key.table, Queued: t.queued, Running: t.running,
			Paused: s.pauses[key.table] != nil, Conflicts: t.conflicts, Failures: t.failures}
	}
	return out
}
