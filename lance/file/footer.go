package file

import (
	"encoding/binary"

	"lancesql/internal/errs"
)

// Spec: file format, "Container". Layout of the footer, the last 40 bytes of a file:
//
//	u64 position of column metadata 0 | u64 position of the column metadata offset table (CMO) |
//	u64 position of the global buffer offset table (GBO) | u32 global buffers | u32 columns |
//	u16 major | u16 minor | "LANC"
//
// CMO and GBO entries are u64 position, u64 size.

const (
	footerBytes = 40
	entryBytes  = 16
	magic       = "LANC"
	alignment   = 64 // of page buffers and global buffers
)

// extent is a range of bytes of the file.
type extent struct{ pos, size uint64 }

// footer is the decoded footer.
type footer struct {
	columnStart  uint64
	cmo, gbo     uint64
	globals      uint32
	columns      uint32
	major, minor uint16
}

func (f footer) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, f.columnStart)
	b = binary.LittleEndian.AppendUint64(b, f.cmo)
	b = binary.LittleEndian.AppendUint64(b, f.gbo)
	b = binary.LittleEndian.AppendUint32(b, f.globals)
	b = binary.LittleEndian.AppendUint32(b, f.columns)
	b = binary.LittleEndian.AppendUint16(b, f.major)
	b = binary.LittleEndian.AppendUint16(b, f.minor)
	return append(b, magic...)
}

// parseFooter decodes the last 40 bytes of a file of size bytes and checks that its tables lie inside the file.
func parseFooter(name string, b []byte, size uint64) (footer, error) {
	at := int64(size - footerBytes)
	if string(b[36:40]) != magic {
		return footer{}, errs.Corrupt(name, at+36, "footer magic %q", b[36:40])
	}
	f := footer{
		columnStart: binary.LittleEndian.Uint64(b),
		cmo:         binary.LittleEndian.Uint64(b[8:]),
		gbo:         binary.LittleEndian.Uint64(b[16:]),
		globals:     binary.LittleEndian.Uint32(b[24:]),
		columns:     binary.LittleEndian.Uint32(b[28:]),
		major:       binary.LittleEndian.Uint16(b[32:]),
		minor:       binary.LittleEndian.Uint16(b[34:]),
	}
	if !within(f.cmo, uint64(f.columns)*entryBytes, size) {
		return footer{}, errs.Corrupt(name, at+8, "metadata of %d columns at %d in a file of %d bytes", f.columns, f.cmo, size)
	}
	if !within(f.gbo, uint64(f.globals)*entryBytes, size) || f.globals == 0 {
		return footer{}, errs.Corrupt(name, at+16, "%d global buffers at %d in a file of %d bytes", f.globals, f.gbo, size)
	}
	return f, nil
}

// within reports whether a range lies inside total bytes.
func within(pos, size, total uint64) bool { return pos <= total && size <= total-pos }

// parseExtent decodes one entry of an offset table.
func parseExtent(b []byte) extent {
	return extent{pos: binary.LittleEndian.Uint64(b), size: binary.LittleEndian.Uint64(b[8:])}
}

// appendExtent encodes one entry of an offset table.
func appendExtent(b []byte, e extent) []byte {
	b = binary.LittleEndian.AppendUint64(b, e.pos)
	return binary.LittleEndian.AppendUint64(b, e.size)
}
