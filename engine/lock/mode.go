package lock

// Mode is the strength of a lock; the order of the values is the order of strength.
type Mode uint8

// Modes. None is what Held returns for a resource that is not locked by the owner.
const (
	None Mode = iota
	S         // shared: compatible with S
	X         // exclusive: compatible with nothing
)

// String implements fmt.Stringer.
func (m Mode) String() string {
	switch m {
	case S:
		return "S"
	case X:
		return "X"
	default:
		return "none"
	}
}

func compatible(a, b Mode) bool { return a == S && b == S }

// Resource names what is locked: a key of a table. The key is opaque; two resources are the same if both parts
// are equal. The manager keeps the key's bytes while the lock is held or waited for.
type Resource struct {
	Table [16]byte
	Key   string
}
