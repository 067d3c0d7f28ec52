// Package inspect shows what is inside Lance tables and files, for people and tools.
//
// Purpose: it reads the metadata of a table or of one of its files and fills a Report, which prints itself as text or
// as JSON. What is damaged or cannot be read becomes a Problem of the report; the rest is still shown.
//
// Place in the dataflow: gets descriptions of bytes from lance/table and lance/file, and objects from whatever can
// list and read them; gives cmd/lancesql a Report. The MemWAL parts of a Report are filled in by lsm.
//
// Invariants:
//
//	I1: nothing is written: Store has no method that could.
//	I2: bytes never stop a report; only an error of the store that is no answer about one object does.
//	I3: the JSON form only grows: members keep their names and meanings while Report.Format stays the same.
//	I4: the text and JSON of equal bytes are equal: no clock, no map order.
//
// Does not know: SQL, engines, how rows are decoded, the contents of MemWAL objects.
//
// Format: docs/operations.md, "Looking inside", describes the text and the JSON members.
package inspect
