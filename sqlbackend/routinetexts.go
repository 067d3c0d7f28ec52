package sqlbackend

import (
	"context"
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// routineTexts are the definitions of routines that were read last: the frontend reads that of a procedure for every CALL.
type routineTexts struct {
	mu    sync.Mutex
	list  map[routineKey]*routine // immutable ones
	bytes int                     // of their texts
}

// routineKey is all that a definition is read by.
type routineKey struct {
	text      string
	options   sqlparser.ParserOptions
	collation sql.CollationID // of texts without one
}

// What routineTexts keeps at most.
const (
	routineTextsMax = 256
	routineBytesMax = 4 << 20
)

// readerKey returns the key of a text; one without text for what is not to be kept.
func readerKey(ctx context.Context, text string, options sqlparser.ParserOptions) routineKey {
	sctx, ok := ctx.(*sql.Context)
	if !ok || sctx.Session == nil || len(text) > routineBytesMax/16 {
		return routineKey{}
	}
	return routineKey{text, options, serverCollation(sctx)}
}

// looksAround reports whether reading a body may depend on what there is now: on the types of user variables that a query assigns, on
// the columns of tables that ON DUPLICATE KEY UPDATE names by VALUES().
func looksAround(text string) bool {
	assigns := strings.Contains(text, ":=") && strings.Contains(text, "@")
	return assigns || containsFold(text, "duplicate") || containsFold(text, "show")
}

func (t *routineTexts) find(k routineKey) *routine {
	if k.text == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.list[k]
}

func (t *routineTexts) keep(k routineKey, r *routine) {
	if k.text == "" || looksAround(k.text) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list == nil || len(t.list) >= routineTextsMax || t.bytes+len(k.text) > routineBytesMax {
		t.list, t.bytes = map[routineKey]*routine{}, 0
	}
	if t.list[k] == nil {
		t.list[k] = r
		t.bytes += len(k.text)
	}
}
