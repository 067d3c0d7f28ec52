package lock

// Mode is the strength of a lock.
type Mode uint8

// Modes. None is what Held returns for a resource that is not locked by the owner. A row has S and X; something that
// contains others, a table, has all: an intention mode says that parts of it are locked, or read and written.
const (
	None Mode = iota
	IS        // parts are read: compatible with all but X
	IX        // parts are written: compatible with IS and IX
	S         // the whole is read: compatible with IS and S
	SIX       // the whole is read and parts are written: compatible with IS
	X         // exclusive: compatible with nothing

	modeCount = int(X) + 1
)

// String implements fmt.Stringer.
func (m Mode) String() string {
	names := [modeCount]string{"none", "IS", "IX", "S", "SIX", "X"}
	if int(m) < modeCount {
		return names[m]
	}
	return "invalid"
}

// modeSet is a set of modes, bit by bit.
type modeSet uint8

func (s modeSet) has(m Mode) bool { return s&(1<<m) != 0 }

// friends returns the modes compatible with m.
func friends(m Mode) modeSet {
	switch m {
	case IS:
		return 1<<IS | 1<<IX | 1<<S | 1<<SIX
	case IX:
		return 1<<IS | 1<<IX
	case S:
		return 1<<IS | 1<<S
	case SIX:
		return 1 << IS
	default:
		return 0
	}
}

func compatible(a, b Mode) bool { return friends(a).has(b) }

// join returns the weakest mode that is as strong as both.
func join(a, b Mode) Mode {
	if a > b {
		a, b = b, a
	}
	if a == IX && b == S {
		return SIX
	}
	return b
}

// Covers reports whether holding m is enough for whoever asks for b.
func (m Mode) Covers(b Mode) bool { return join(m, b) == m }

// With returns the weakest mode that is as strong as both: what an owner holds after asking for both.
func (m Mode) With(b Mode) Mode { return join(m, b) }

// Kind keeps the names of different things apart.
type Kind uint8

// Kinds of resources.
const (
	Row    Kind = iota // a row of a table, by its key
	Table              // the rows of a table as a whole
	Meta               // the definition of a table, by its name
	Named              // a name that applications agree on
	Server             // the server as a whole
)

// Resource names what is locked. The key is opaque; two resources are the same if all parts are equal. The manager
// keeps the key's bytes while the lock is held or waited for.
type Resource struct {
	Table [16]byte
	Key   string
	Kind  Kind
}

// Scope says when a lock is released.
type Scope uint8

// Scopes.
const (
	Transaction Scope = iota // when the transaction ends
	Statement                // when the statement ends
	Session                  // when the session says so, as for LOCK TABLES
	Advisory                 // one by one, or when the session ends
	Instance                 // when the session says so, as for LOCK INSTANCE

	scopeCount = int(Instance) + 1
)
