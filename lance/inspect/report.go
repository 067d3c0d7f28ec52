package inspect

import (
	"errors"

	"lancesql/internal/errs"
)

// FormatVersion is the version of the JSON form.
const FormatVersion = 1

// Kinds of things that can be inspected.
const (
	KindDataset       = "dataset"
	KindDataFile      = "data file"
	KindManifest      = "manifest"
	KindTransaction   = "transaction"
	KindDeletions     = "deletion file"
	KindWALEntry      = "WAL entry"
	KindShardManifest = "shard manifest"
	KindDataDirectory = "data directory"
)

// Report is the outcome of one inspection. Exactly one of the pointers is set, unless nothing of the thing could be
// read. Sizes are bytes, times are RFC 3339 in UTC, empty members are left out of the JSON form.
type Report struct {
	Format        int            `json:"format"`
	Path          string         `json:"path"`
	Kind          string         `json:"kind"`
	Dataset       *Dataset       `json:"dataset,omitempty"`
	DataFile      *File          `json:"data_file,omitempty"`
	Manifest      *Manifest      `json:"manifest,omitempty"`
	Transaction   *Transaction   `json:"transaction,omitempty"`
	Deletions     *Deletions     `json:"deletion_file,omitempty"`
	WALEntry      *WALEntry      `json:"wal_entry,omitempty"`
	ShardManifest *ShardManifest `json:"shard_manifest,omitempty"`
	DataDirectory *DataDirectory `json:"data_directory,omitempty"`
	Problems      []Problem      `json:"problems"`

	errs []error // behind Problems
}

// NewReport returns an empty report on the thing at path.
func NewReport(path, kind string) *Report {
	return &Report{Format: FormatVersion, Path: path, Kind: kind, Problems: []Problem{}}
}

// Problem is something that is damaged, missing or not readable by this version.
type Problem struct {
	Kind    string `json:"kind"`             // corruption, missing, unsupported, limit or error
	Object  string `json:"object,omitempty"` // relative to the inspected path; only of a corruption
	Offset  *int64 `json:"offset,omitempty"` // byte in the object, if known
	Message string `json:"message"`
}

// Add records errors as problems; nil ones are skipped.
func (r *Report) Add(list ...error) {
	for _, err := range list {
		if err == nil {
			continue
		}
		r.errs = append(r.errs, err)
		r.Problems = append(r.Problems, problemOf(err))
	}
}

// Err returns the first error added, nil if there is none.
func (r *Report) Err() error {
	if len(r.errs) == 0 {
		return nil
	}
	return r.errs[0]
}

// Missing reports whether an object was not there: it may have been removed by a writer meanwhile.
func (r *Report) Missing() bool {
	for _, err := range r.errs {
		if errors.Is(err, errs.ErrNotFound) {
			return true
		}
	}
	return false
}

func problemOf(err error) Problem {
	p := Problem{Kind: "error", Message: err.Error()}
	var bad *errs.Corruption
	switch {
	case errors.As(err, &bad):
		p.Kind, p.Object = "corruption", bad.Object
		if bad.Offset >= 0 {
			offset := bad.Offset
			p.Offset = &offset
		}
	case errors.Is(err, errs.ErrNotFound):
		p.Kind = "missing"
	case errors.Is(err, errs.ErrUnsupported), errors.Is(err, errs.ErrNewerFormat):
		p.Kind = "unsupported"
	case errors.Is(err, errs.ErrLimit):
		p.Kind = "limit"
	}
	return p
}

// Dataset is the newest version of a table and what lies around it.
type Dataset struct {
	Manifest
	Versions     []uint64      `json:"versions"` // kept versions, ascending
	Tags         []Ref         `json:"tags,omitempty"`
	Branches     []Ref         `json:"branches,omitempty"`
	Transactions []Transaction `json:"transactions"` // transaction files, by read version
	Shards       []Shard       `json:"shards,omitempty"`
}

// Ref is a tag or a branch.
type Ref struct {
	Name    string `json:"name"`
	Version uint64 `json:"version"` // tagged, or branched from
}

// Manifest is one version of a table.
type Manifest struct {
	Version         uint64            `json:"version"`
	Timestamp       string            `json:"timestamp,omitempty"`
	Writer          string            `json:"writer,omitempty"`
	FileFormat      string            `json:"file_format,omitempty"`
	DataVersion     string            `json:"data_version,omitempty"`
	ReaderFlags     Flags             `json:"reader_flags"`
	WriterFlags     Flags             `json:"writer_flags"`
	Rows            uint64            `json:"rows"` // live
	PhysicalRows    uint64            `json:"physical_rows"`
	DataBytes       uint64            `json:"data_bytes"` // recorded sizes
	MaxFragmentID   *uint32           `json:"max_fragment_id,omitempty"`
	NextRowID       uint64            `json:"next_row_id,omitempty"`
	Tag             string            `json:"tag,omitempty"`
	Branch          string            `json:"branch,omitempty"`
	TransactionFile string            `json:"transaction_file,omitempty"`
	Inline          *Transaction      `json:"inline_transaction,omitempty"`
	Size            int64             `json:"size"`
	Sections        []Section         `json:"sections"`
	Schema          []Field           `json:"schema"`
	SchemaMetadata  map[string]string `json:"schema_metadata,omitempty"`
	TableMetadata   map[string]string `json:"table_metadata,omitempty"`
	Config          map[string]string `json:"config,omitempty"`
	BasePaths       []BasePath        `json:"base_paths,omitempty"`
	Fragments       []Fragment        `json:"fragments"`
	Indexes         []Index           `json:"indexes,omitempty"` // without the MemWAL entry
	MemWAL          *MemWAL           `json:"mem_wal,omitempty"`
	UnknownFields   []int32           `json:"unknown_fields,omitempty"`
}

// Flags is a feature flag word.
type Flags struct {
	Word  uint64   `json:"word"`
	Names []string `json:"names,omitempty"`
}

// Section is a part of a manifest file.
type Section struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
}

// Field is a column or a part of one.
type Field struct {
	ID         int32             `json:"id"`
	Name       string            `json:"name"`
	Type       string            `json:"type"` // Lance logical type
	Nullable   bool              `json:"nullable"`
	PrimaryKey uint32            `json:"primary_key,omitempty"` // 1-based position
	Metadata   map[string]string `json:"metadata,omitempty"`
	Children   []Field           `json:"children,omitempty"`
}

// BasePath is a place outside the table's directory.
type BasePath struct {
	ID          uint32 `json:"id"`
	Name        string `json:"name,omitempty"`
	Path        string `json:"path"`
	DatasetRoot bool   `json:"dataset_root"`
}

// Fragment is a horizontal part of a table.
type Fragment struct {
	ID           uint64     `json:"id"`
	PhysicalRows uint64     `json:"physical_rows"`
	DeletedRows  uint64     `json:"deleted_rows"`
	Deletions    *Deletions `json:"deletion_file,omitempty"`
	Files        []DataFile `json:"files"`
}

// Deletions is a deletion file.
type Deletions struct {
	Path        string  `json:"path"`
	Encoding    string  `json:"encoding"` // array or bitmap
	ReadVersion uint64  `json:"read_version,omitempty"`
	Rows        uint64  `json:"rows"`             // as recorded; of the file itself if it is inspected alone
	Stored      *uint64 `json:"stored,omitempty"` // rows the file names, if it could be read
	Base        *uint32 `json:"base,omitempty"`
}

// DataFile is a data file as the manifest names it.
type DataFile struct {
	Path     string  `json:"path"`
	Version  string  `json:"version"`
	Size     uint64  `json:"size,omitempty"` // recorded; left out if unknown
	Fields   []int32 `json:"fields"`
	Columns  []int32 `json:"columns"` // parallel to fields, -1 = none
	Base     *uint32 `json:"base,omitempty"`
	Contents *File   `json:"contents,omitempty"` // of datasets only
}

// File is what a data file says about itself.
type File struct {
	Version        string            `json:"version"`
	Footer         string            `json:"footer"` // major.minor of the footer
	Size           uint64            `json:"size"`
	Rows           uint64            `json:"rows"`
	GlobalBuffers  []Buffer          `json:"global_buffers"`
	Schema         []Field           `json:"schema,omitempty"` // of a file inspected alone
	SchemaMetadata map[string]string `json:"schema_metadata,omitempty"`
	Columns        []Column          `json:"columns"`
}

// Column is one physical column of a data file.
type Column struct {
	Index    int      `json:"index"`
	FieldID  *int32   `json:"field_id,omitempty"`
	Field    string   `json:"field,omitempty"` // dotted path
	Encoding string   `json:"encoding"`
	Rows     uint64   `json:"rows"`
	Bytes    uint64   `json:"bytes"` // of all buffers
	Buffers  []Buffer `json:"buffers,omitempty"`
	Pages    []Page   `json:"pages"`
}

// Page is one page of a column.
type Page struct {
	Rows      uint64            `json:"rows"`
	FirstRow  uint64            `json:"first_row"` // recorded priority
	Layout    string            `json:"layout"`
	Levels    []string          `json:"levels,omitempty"` // innermost first
	Items     uint64            `json:"items,omitempty"`
	Chunks    uint64            `json:"chunks,omitempty"`
	Encodings map[string]string `json:"encodings"` // by part
	Buffers   []Buffer          `json:"buffers"`
}

// Buffer is a range of bytes of a data file.
type Buffer struct {
	Role   string `json:"role"`
	Offset uint64 `json:"offset"`
	Size   uint64 `json:"size"`
}

// Index is one segment of an index.
type Index struct {
	Name           string      `json:"name"`
	UUID           string      `json:"uuid"`
	Kind           string      `json:"kind"` // e.g. BTree, Inverted, Vector
	IndexVersion   int32       `json:"index_version"`
	Fields         []int32     `json:"fields,omitempty"`
	CoveringFields []int32     `json:"covering_fields,omitempty"`
	Fragments      []uint64    `json:"fragments"` // of the version, covered
	Uncovered      []uint64    `json:"uncovered_fragments,omitempty"`
	Gone           uint64      `json:"gone_fragments,omitempty"` // covered, but not in the version any more
	BuiltFrom      uint64      `json:"built_from_version"`
	CreatedAt      string      `json:"created_at,omitempty"`
	Base           *uint32     `json:"base,omitempty"`
	Files          []IndexFile `json:"files,omitempty"`
}

// IndexFile is a file of an index segment.
type IndexFile struct {
	Path string `json:"path"`
	Size uint64 `json:"size"`
}

// Transaction is what a commit recorded.
type Transaction struct {
	File        string             `json:"file,omitempty"`
	ReadVersion uint64             `json:"read_version"`
	UUID        string             `json:"uuid"`
	Operation   string             `json:"operation"`
	Effects     []Effect           `json:"effects,omitempty"`
	Merged      []MergedGeneration `json:"merged_generations,omitempty"`
	Predicate   string             `json:"predicate,omitempty"`
	Properties  map[string]string  `json:"properties,omitempty"`
}

// Effect counts things an operation names.
type Effect struct {
	What  string `json:"what"`
	Count uint64 `json:"count"`
}
