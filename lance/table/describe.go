package table

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
	"lancesql/lance/schema"
)

// Directories of a table root, for tools that walk it.
const (
	DirVersions     = versionsDir
	DirTransactions = transactionsDir
	DirDeletions    = deletionsDir
	DirIndices      = indicesDir
	DirData         = dataDir
	DirTags         = tagsDir
	DirBranches     = branchesDir
)

// ManifestDescription is what a manifest file says, without refusing what this package cannot read or write. It is
// for people and tools. Members that could not be decoded are empty; the problem is reported beside.
type ManifestDescription struct {
	Size            int64
	Sections        []Section
	Version         uint64
	Timestamp       time.Time // zero if not recorded
	Writer          string    // library and version, "" if not recorded
	FileFormat      string    // "lance"
	DataVersion     string    // version of the data files, "" if not recorded
	ReaderFlags     uint64
	WriterFlags     uint64
	MaxFragmentID   *uint32
	NextRowID       uint64
	Tag, Branch     string
	TransactionFile string
	Config          map[string]string
	TableMetadata   map[string]string
	BasePaths       []BasePathDescription
	Schema          *schema.Schema // nil if it cannot be decoded
	Fragments       []*Fragment    // by ascending id
	Indexes         []IndexEntry   // in stored order; the MemWAL entry among them
	Transaction     *TransactionDescription
	UnknownFields   []int32 // numbers of fields of newer writers, ascending
}

// Section is one part of a manifest file. Offset is that of its length prefix; Size includes it.
type Section struct {
	Name   string // index section, transaction, manifest
	Offset int64
	Size   int64
}

// BasePathDescription is a place outside the table's root that files may lie in.
type BasePathDescription struct {
	ID          uint32
	Name, Path  string
	DatasetRoot bool
}

// FlagNames names the bits set in a feature flag word, ascending. A bit this package does not know is "unknown".
func FlagNames(word uint64) []string {
	names := [...]string{
		"deletion files", "stable row ids", "v2 format", "table config", "base paths", "no transaction files",
		"data overlays", "covered index metadata", "mixed data file versions", "fragment reuse with stable row ids", "tagged fragment reuse index",
	}
	var out []string
	for ; word != 0; word &= word - 1 {
		bit := bits.TrailingZeros64(word)
		name := "unknown"
		if bit < len(names) {
			name = names[bit]
		}
		out = append(out, fmt.Sprintf("%d %s", uint64(1)<<bit, name))
	}
	return out
}

// ParseManifestName decodes the base name of a manifest; ok is false for detached versions and foreign files.
func ParseManifestName(base string) (version uint64, ok bool) {
	version, _, ok = parseManifestName(base)
	return version, ok && version > 0 && version <= versionMax
}

// DeletionPath is the place of a fragment's deletion file below the table's root. The fragment must have one.
func (f *Fragment) DeletionPath() string { return join(deletionsDir, deletionName(f.ID, f.Deletion)) }

// ObjectPath is the place of a data file below the table's root, if it has no base path.
func (d *DataFile) ObjectPath() string { return join(dataDir, d.Path) }

// DecodeDeletions parses a deletion file; object names it in errors. errs.ErrCorruption if it is damaged.
func DecodeDeletions(object string, kind DeletionKind, b []byte) (*roaring.Bitmap, error) {
	return decodeDeletions(object, kind, b)
}

// DescribeManifest takes a manifest file apart. object names it in errors. The description is nil if there is no
// readable Manifest message; the problems are errs.ErrCorruption and errs.ErrUnsupported.
// Spec: table layout, "Manifest file".
func DescribeManifest(object string, b []byte) (*ManifestDescription, []error) {
	d := &manifestDescriber{object: object, b: b}
	d.run()
	return d.out, d.problems
}

type manifestDescriber struct {
	object   string
	b        []byte
	at       int64 // offset of the part being read, given to errors that do not know theirs
	out      *ManifestDescription
	problems []error
}

func (d *manifestDescriber) problem(err error) {
	if err != nil {
		d.problems = append(d.problems, errorAt(d.object, d.at, err))
	}
}

// errorAt gives a corruption of object whose place is unknown the offset of the part it lies in.
func errorAt(object string, at int64, err error) error {
	var bad *errs.Corruption
	if errors.As(err, &bad) && bad.Object == object && bad.Offset < 0 {
		return errs.Corrupt(object, at, "%s", bad.What)
	}
	return err
}

func (d *manifestDescriber) run() {
	n := int64(len(d.b))
	if n < manifestFooter+sectionPrefix {
		d.problem(errs.Corrupt(d.object, 0, "%d bytes are too few for a manifest", n))
		return
	}
	foot := d.b[n-manifestFooter:]
	if string(foot[12:]) != manifestMagic {
		d.problem(errs.Corrupt(d.object, n-4, "magic %q", foot[12:]))
		return
	}
	if major := binary.LittleEndian.Uint16(foot[8:]); major > 2 {
		d.problem(fmt.Errorf("%s: manifest major version %d: %w", d.object, major, errs.ErrUnsupported))
	}
	at := binary.LittleEndian.Uint64(foot)
	d.at = n - manifestFooter
	body, err := section(d.object, d.b, at)
	if err != nil {
		d.problem(err)
		return
	}
	d.at = int64(at)
	m := &pb.Manifest{}
	if err := proto.Unmarshal(body, m); err != nil {
		d.problem(errs.Corrupt(d.object, d.at, "manifest body: %v", err))
		return
	}
	d.out = &ManifestDescription{Size: n}
	d.indexes(m)
	d.transaction(m)
	d.at = int64(at)
	d.section("manifest", at, body)
	if end := at + sectionPrefix + uint64(len(body)); end != uint64(n-manifestFooter) {
		d.problem(errs.Corrupt(d.object, d.at, "manifest body ends at %d, the footer begins at %d", end, n-manifestFooter))
	}
	d.scalars(m)
	d.schema(m)
	d.fragments(m)
	d.problem(checkReadable(d.object, m))
}

func (d *manifestDescriber) section(name string, at uint64, body []byte) {
	d.out.Sections = append(d.out.Sections, Section{name, int64(at), int64(len(body)) + sectionPrefix})
}

func (d *manifestDescriber) indexes(m *pb.Manifest) {
	if m.IndexSection == nil {
		return
	}
	raw, err := section(d.object, d.b, *m.IndexSection)
	if err != nil {
		d.problem(err)
		return
	}
	d.at = int64(*m.IndexSection)
	d.section("index section", *m.IndexSection, raw)
	s := &pb.IndexSection{}
	if err := proto.Unmarshal(raw, s); err != nil {
		d.problem(errs.Corrupt(d.object, d.at, "index section: %v", err))
		return
	}
	for _, p := range s.Indices {
		e, err := indexEntryFrom(d.object, p)
		d.problem(err)
		if err == nil {
			d.out.Indexes = append(d.out.Indexes, e)
		}
	}
}

func (d *manifestDescriber) transaction(m *pb.Manifest) {
	at := inlineTransactionOffset(m)
	if at == nil {
		return
	}
	raw, err := section(d.object, d.b, *at)
	if err != nil {
		d.problem(err)
		return
	}
	d.at = int64(*at)
	d.section("transaction", *at, raw)
	t, err := DescribeTransaction(d.object, raw)
	d.problem(err)
	d.out.Transaction = t
}

func (d *manifestDescriber) scalars(m *pb.Manifest) {
	o := d.out
	o.Version, o.ReaderFlags, o.WriterFlags = m.Version, m.ReaderFeatureFlags, m.WriterFeatureFlags
	o.MaxFragmentID, o.NextRowID = m.MaxFragmentId, m.NextRowId
	o.Tag, o.Branch, o.TransactionFile = m.Tag, m.GetBranch(), m.TransactionFile
	o.Config, o.TableMetadata = cloneMap(m.Config), cloneMap(m.TableMetadata)
	o.FileFormat, o.DataVersion = m.GetDataFormat().GetFileFormat(), m.GetDataFormat().GetVersion()
	if m.Timestamp != nil {
		o.Timestamp = m.Timestamp.AsTime()
	}
	if w := m.WriterVersion; w != nil {
		o.Writer = w.Library + " " + w.Version
		if w.GetPrerelease() != "" {
			o.Writer += "-" + w.GetPrerelease()
		}
	}
	for _, p := range m.BasePaths {
		o.BasePaths = append(o.BasePaths, BasePathDescription{p.GetId(), p.GetName(), p.GetPath(), p.GetIsDatasetRoot()})
	}
	o.UnknownFields = unknownNumbers(m.ProtoReflect().GetUnknown())
	if m.Version == 0 || m.Version > versionMax {
		d.problem(errs.Corrupt(d.object, d.at, "version %d", m.Version))
	}
}

func (d *manifestDescriber) schema(m *pb.Manifest) {
	s, err := schema.FromProto(m.Fields, m.SchemaMetadata)
	switch {
	case err == nil:
		d.out.Schema = s
	case errors.Is(err, errs.ErrInvalid):
		d.problem(errs.Corrupt(d.object, d.at, "schema: %v", err))
	default:
		d.problem(fmt.Errorf("%s: schema: %w", d.object, err))
	}
}

func (d *manifestDescriber) fragments(m *pb.Manifest) {
	if m.DataFormat != nil {
		if _, err := parseDataVersion(m.DataFormat.Version); err != nil {
			d.problem(fmt.Errorf("%s: %w", d.object, err))
		}
	}
	for _, p := range m.Fragments {
		f, err := fragmentFrom(d.object, withColumns(p))
		if err != nil {
			d.problem(err)
			continue
		}
		d.out.Fragments = append(d.out.Fragments, f)
	}
	slices.SortStableFunc(d.out.Fragments, func(a, b *Fragment) int { return cmp.Compare(a.ID, b.ID) })
	for i, f := range d.out.Fragments {
		if i > 0 && d.out.Fragments[i-1].ID == f.ID {
			d.problem(errs.Corrupt(d.object, d.at, "fragment %d appears twice", f.ID))
		}
	}
}

// withColumns gives the data files of the legacy format, which records no columns, none for each field.
func withColumns(p *pb.DataFragment) *pb.DataFragment {
	for i, f := range p.GetFiles() {
		if f.GetFileMajorVersion() > 0 || len(f.GetColumnIndices()) > 0 || len(f.GetFields()) == 0 {
			continue
		}
		file := shallowCopy(f)
		file.ColumnIndices = slices.Repeat([]int32{-1}, len(f.Fields))
		p = shallowCopy(p)
		p.Files = slices.Clone(p.Files)
		p.Files[i] = file
	}
	return p
}

// unknownNumbers lists the field numbers in the unknown part of a message.
func unknownNumbers(raw []byte) []int32 {
	var out []int32
	for len(raw) > 0 {
		n, _, size := protowire.ConsumeField(raw)
		if size < 0 {
			break
		}
		if !slices.Contains(out, int32(n)) {
			out = append(out, int32(n))
		}
		raw = raw[size:]
	}
	slices.Sort(out)
	return out
}
