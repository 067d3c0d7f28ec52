package rowaddr

import "fmt"

// Addr is the address of a physical row: fragment id in the upper 32 bits, row offset in the fragment's physical
// rows (deleted ones included) in the lower 32.
// Spec: table format, "Row address".
type Addr uint64

// New builds the address of row offset in fragment.
func New(fragment, offset uint32) Addr { return Addr(uint64(fragment)<<32 | uint64(offset)) }

// Fragment returns the fragment id.
func (a Addr) Fragment() uint32 { return uint32(a >> 32) }

// Offset returns the row offset inside the fragment, counted over physical rows.
func (a Addr) Offset() uint32 { return uint32(a) }

// String formats the address as fragment:offset.
func (a Addr) String() string { return fmt.Sprintf("%d:%d", a.Fragment(), a.Offset()) }
