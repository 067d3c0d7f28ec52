package engine

// StatementStart returns the mark up to which scans of the running statement see own writes.
func (t *Txn) StatementStart() Mark { return t.start }

// SetStatementStart moves it: to Mark when a statement inside the running one begins (one of a trigger or a procedure),
// and back when that ends. Scans that are open do not notice.
func (t *Txn) SetStatementStart(m Mark) { t.start = min(m, t.overlay.mark()) }
