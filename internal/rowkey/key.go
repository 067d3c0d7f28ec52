package rowkey

// Key is the order-preserving tuple encoding of a primary key (mem_wal "composite primary key"): bytewise
// comparison is tuple comparison, and no key is a prefix of another. It is a string so that it can key a map.
type Key string
