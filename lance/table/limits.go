package table

// Bounds on what is read from storage before memory is allocated for it. They are far above what a writer of ours
// makes and low enough that a damaged length cannot exhaust memory.
const (
	manifestBytesMax    = 512 << 20 // 64 KiB of fragments is about 600; half a GiB is millions
	transactionBytesMax = 512 << 20
	deletionBytesMax    = 1 << 30 // every offset of a full fragment as an array of 4 bytes would be 16 GiB: refused
	refBytesMax         = 1 << 20

	// arrowDeletionBytesMax bounds the values of an Arrow deletion file after decompression: 16 Mi offsets, where
	// writers change to the other encoding at 5000.
	arrowDeletionBytesMax = 64 << 20

	// inlineTransactionMax mirrors the reference, which leaves larger transactions to the file.
	inlineTransactionMax = 20 << 20

	// arrowDeletionsMax is the number of deleted rows up to which a deletion file is an Arrow file.
	arrowDeletionsMax = 5000

	fragmentIDMax   = 1<<32 - 1 // the upper half of a row address
	fragmentRowsMax = 1<<32 - 1 // offsets are 32 bits

	versionMax = 1<<63 - 1 // bit 63 marks detached versions

	commitAttemptsMax = 20
)
