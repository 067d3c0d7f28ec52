// Package pb holds the generated protobuf messages of the Lance format.
//
// Purpose: the wire messages of data files, manifests, transactions and MemWAL manifests. The sources are our own
// .proto files in lance/proto, written from the format notes in docs/format; generate.sh reproduces this package.
//
// Place in the dataflow: used by lance/schema, lance/encoding, lance/file, lance/table and lsm to marshal and
// unmarshal messages.
//
// Invariants:
//  1. Only generated code (and this file) lives here.
//  2. Message names are unique over all .proto files, because they share one Go package.
//
// Does not know: what a message means, defaults, validation, I/O.
package pb
