// Package encoding holds the codecs of Lance data pages: bit packing, run lengths, dictionaries, FSST, byte streams,
// general compression, and the page layouts (mini-block, full-zip, constant) built from them.
//
// Purpose: turn the buffers of one page into column vectors and back. Everything works on byte slices in memory.
//
// Place in the dataflow: lance/file reads page buffers and hands slices of them down; vectors come back and become
// Arrow arrays. On writing it is the reverse.
//
// Invariants:
//  1. Decoders accept any bytes: they return errors that match errs.ErrCorruption or errs.ErrUnsupported, never panic,
//     and never allocate more than a fixed multiple of what they were given and asked for.
//  2. A Vector under construction has consistent lengths after each successful append; after an error it is garbage.
//  3. Value bytes under nulls are zero (fixed width) or empty (variable width) in everything we write.
//
// Does not know: files, I/O, field names and ids, rows outside the page.
//
// Format: docs/format/file.md, "Page layouts" and "Codecs".
package encoding
