package indexes

import "strings"

// Kind is a kind of index.
type Kind uint8

// The kinds this engine knows by name; Kinds says what it can do with each.
const (
	Unknown Kind = iota
	BTree
	Bitmap
	ZoneMap
	Bloom
	LabelList
	NGram
	Inverted
	FragmentReuse
	MemWAL
	Key // BTREE files over the tuples of several columns, which only this engine knows: docs/format/btree.md
)

// KindInfo is a row of the table of kinds.
type KindInfo struct {
	Kind    Kind
	Name    string // as users and the reference spell it
	TypeURL string // of the index details, as written
	// VersionsRead is the highest index_version that is understood, -1: none (rows are scanned).
	VersionsRead int32
	// VersionWritten is the one to write in tables without stable row ids: readable by Lance 12 to 15.
	VersionWritten int32
	// Remappable says that row addresses may be translated when fragments are rewritten. Segments of other kinds lose
	// the rewritten fragments and are built anew.
	Remappable bool
}

// kinds is the table of kinds.
// Spec: indexes, "type_url and version".
var kinds = [...]KindInfo{
	{BTree, "BTREE", "/lance.table.BTreeIndexDetails", 1, 0, true},
	{Bitmap, "BITMAP", "/lance.table.BitmapIndexDetails", 1, 0, true},
	{ZoneMap, "ZONEMAP", "/lance.table.ZoneMapIndexDetails", 1, 0, false},
	{Bloom, "BLOOMFILTER", "/lance.index.pb.BloomFilterIndexDetails", 0, 0, false},
	{LabelList, "LABEL_LIST", "/lance.table.LabelListIndexDetails", -1, 1, true},
	{NGram, "NGRAM", "/lance.table.NGramIndexDetails", -1, 0, true},
	{Inverted, "INVERTED", "/lance.table.InvertedIndexDetails", -1, 2, false},
	{FragmentReuse, "FRAGMENT_REUSE", "/lance.table.FragmentReuseIndexDetails", 1, 0, false},
	{MemWAL, "MEM_WAL", "/lance.table.MemWalIndexDetails", 0, 0, false},
	{Key, "KEY", "/lancesql.KeyIndexDetails", 0, 0, true},
}

// InfoOf returns the row of a kind; ok is false for Unknown.
func InfoOf(k Kind) (info KindInfo, ok bool) {
	for _, info := range kinds {
		if info.Kind == k {
			return info, true
		}
	}
	return KindInfo{}, false
}

// KindOf finds the kind of an index entry by the type URL of its details. Messages are told apart by the name after the
// last dot, whatever their letter case: packages and hosts changed between releases. ok is false for a kind that is not
// in the table.
func KindOf(typeURL string) (info KindInfo, ok bool) {
	for _, info := range kinds {
		if message(info.TypeURL) == message(typeURL) {
			return info, true
		}
	}
	return KindInfo{}, false
}

func message(typeURL string) string {
	return strings.ToLower(typeURL[strings.LastIndexAny(typeURL, "./")+1:])
}

// Readable reports whether a segment of the kind with this index_version may be opened.
func (i KindInfo) Readable(version int32) bool { return version >= 0 && version <= i.VersionsRead }

// String is the kind's name.
func (k Kind) String() string {
	if info, ok := InfoOf(k); ok {
		return info.Name
	}
	return "UNKNOWN"
}
