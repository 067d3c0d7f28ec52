package table

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/file"
	"lancesql/lance/pb"
	"lancesql/lance/schema"
)

// A manifest file, drawn in docs/format/manifest.md:
//
//	[u32 length | IndexSection]  [u32 length | Transaction]  [u32 length | Manifest]
//	[u64 offset of the manifest's length prefix | u16 0 | u16 2 | "LANC"]
//
// The first two sections are optional; the Manifest message holds their offsets. No checksum anywhere.
const (
	manifestMagic  = "LANC"
	manifestMajor  = 0
	manifestMinor  = 2
	manifestFooter = 16
	sectionPrefix  = 4
)

const (
	writerLibrary = "lancesql"
	writerVersion = "0.1.0"
	fileFormat    = "lance"
)

// state is one decoded version. All of it is immutable once built; messages are never written through.
type state struct {
	object    string // manifest object name, for errors
	naming    naming
	size      int64 // bytes of the manifest object
	m         *pb.Manifest
	indices   []*pb.IndexMetadata
	schema    *schema.Schema
	fragments []*Fragment
	memwal    *MemWAL
	inlineTxn []byte // inline transaction, nil if absent
	plans     *planCache
}

// encodeManifest lays out a manifest file. It sets the section offsets in m. txn may be nil.
func encodeManifest(m *pb.Manifest, indices []*pb.IndexMetadata, txn []byte) ([]byte, error) {
	var out []byte
	m.IndexSection, m.TransactionSection, m.TransactionSectionV14 = nil, nil, nil
	if len(indices) > 0 {
		section, err := marshal(&pb.IndexSection{Indices: indices})
		if err != nil {
			return nil, fmt.Errorf("encode index section: %w", err)
		}
		m.IndexSection = proto.Uint64(uint64(len(out)))
		out = appendSection(out, section)
	}
	if txn != nil {
		// Up to Lance 13 the section is found through 21, since 14 through 23: both name the same bytes.
		m.TransactionSection = proto.Uint64(uint64(len(out)))
		m.TransactionSectionV14 = proto.Uint64(uint64(len(out)))
		out = appendSection(out, txn)
	}
	body, err := marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	if total := len(out) + len(body); total > manifestBytesMax {
		return nil, fmt.Errorf("manifest of %d bytes: %w", total, errs.ErrLimit)
	}
	at := uint64(len(out))
	out = appendSection(out, body)
	out = binary.LittleEndian.AppendUint64(out, at)
	out = binary.LittleEndian.AppendUint16(out, manifestMajor)
	out = binary.LittleEndian.AppendUint16(out, manifestMinor)
	return append(out, manifestMagic...), nil
}

func appendSection(out, body []byte) []byte {
	out = binary.LittleEndian.AppendUint32(out, uint32(len(body)))
	return append(out, body...)
}

// decodeManifest reads a whole manifest file. It refuses flags and file versions this package does not read.
func decodeManifest(object string, b []byte) (*state, error) {
	n := int64(len(b))
	if n < manifestFooter+sectionPrefix {
		return nil, errs.Corrupt(object, 0, "%d bytes are too few for a manifest", n)
	}
	foot := b[n-manifestFooter:]
	if string(foot[12:]) != manifestMagic {
		return nil, errs.Corrupt(object, n-4, "magic %q", foot[12:])
	}
	if major := binary.LittleEndian.Uint16(foot[8:]); major > 2 {
		return nil, fmt.Errorf("%s: manifest major version %d: %w", object, major, errs.ErrUnsupported)
	}
	at := binary.LittleEndian.Uint64(foot)
	body, err := section(object, b, at)
	if err != nil {
		return nil, fmt.Errorf("manifest body: %w", err)
	}
	if end := at + sectionPrefix + uint64(len(body)); end != uint64(n-manifestFooter) {
		return nil, errs.Corrupt(object, int64(at), "manifest body ends at %d, the footer begins at %d", end, n-manifestFooter)
	}
	s := &state{object: object, size: n, m: &pb.Manifest{}, plans: &planCache{}}
	if err := proto.Unmarshal(body, s.m); err != nil {
		return nil, errs.Corrupt(object, int64(at), "manifest body: %v", err)
	}
	if err := checkReadable(object, s.m); err != nil {
		return nil, err
	}
	if s.m.IndexSection != nil {
		raw, err := section(object, b, *s.m.IndexSection)
		if err != nil {
			return nil, fmt.Errorf("index section: %w", err)
		}
		indices := &pb.IndexSection{}
		if err := proto.Unmarshal(raw, indices); err != nil {
			return nil, errs.Corrupt(object, int64(*s.m.IndexSection), "index section: %v", err)
		}
		s.indices = indices.Indices
	}
	if at := inlineTransactionOffset(s.m); at != nil {
		if s.inlineTxn, err = section(object, b, *at); err != nil {
			return nil, fmt.Errorf("inline transaction: %w", err)
		}
	}
	return s, s.interpret()
}

// inlineTransactionOffset prefers the field of Lance 14, as Lance 14 does.
func inlineTransactionOffset(m *pb.Manifest) *uint64 {
	if m.TransactionSectionV14 != nil {
		return m.TransactionSectionV14
	}
	return m.TransactionSection
}

// section returns the body of the section whose length prefix lies at offset at.
func section(object string, b []byte, at uint64) ([]byte, error) {
	end := uint64(len(b) - manifestFooter)
	if at > end || end-at < sectionPrefix {
		return nil, errs.Corrupt(object, -1, "section offset %d lies outside the file", at)
	}
	length := uint64(binary.LittleEndian.Uint32(b[at:]))
	if length > end-at-sectionPrefix {
		return nil, errs.Corrupt(object, int64(at), "section of %d bytes passes the end", length)
	}
	return b[at+sectionPrefix : at+sectionPrefix+length], nil
}

// interpret fills the typed members from the messages and checks what every version must satisfy.
func (s *state) interpret() error {
	m := s.m
	if m.Version == 0 || m.Version > versionMax {
		return errs.Corrupt(s.object, -1, "version %d", m.Version)
	}
	if m.DataFormat != nil {
		if _, err := s.fileVersion(); err != nil { // before the fragments: legacy files look corrupt to their rules
			return err
		}
	}
	var err error
	if s.fragments, err = fragmentsFrom(s.object, m.Fragments); err != nil {
		return err
	}
	slices.SortFunc(s.fragments, func(a, b *Fragment) int { return cmp.Compare(a.ID, b.ID) })
	if err := s.checkFragments(); err != nil {
		return err
	}
	for i, e := range s.indices {
		if len(e.GetUuid().GetUuid()) != 16 {
			return errs.Corrupt(s.object, -1, "index entry %d (%q): identifier of %d bytes", i, e.GetName(), len(e.GetUuid().GetUuid()))
		}
	}
	if s.memwal, err = memWALOf(s.object, s.indices); err != nil {
		return err
	}
	if s.schema, err = schema.FromProto(m.Fields, m.SchemaMetadata); err != nil {
		if errors.Is(err, errs.ErrInvalid) { // the caller is not at fault here, the bytes are
			return errs.Corrupt(s.object, -1, "schema: %v", err)
		}
		return fmt.Errorf("%s: schema: %w", s.object, err)
	}
	return nil
}

// checkFragments establishes: distinct ids; one file version unless flagged; row ids where the flag promises them.
func (s *state) checkFragments() error {
	want, err := s.fileVersion()
	if err != nil {
		return err
	}
	mixed := s.m.ReaderFeatureFlags&flagMixedDataFiles != 0
	for i, f := range s.fragments {
		if i > 0 && s.fragments[i-1].ID == f.ID {
			return errs.Corrupt(s.object, -1, "fragment %d appears twice", f.ID)
		}
		for _, df := range f.Files {
			have := file.Version{Major: df.Major, Minor: df.Minor}
			if !mixed && want != (file.Version{}) && have != want {
				return errs.Corrupt(s.object, -1, "fragment %d: data file version %d.%d in a table of %d.%d", f.ID, have.Major, have.Minor, want.Major, want.Minor)
			}
		}
		if s.m.ReaderFeatureFlags&flagStableRowIDs != 0 && f.raw.RowIdSequence == nil {
			return errs.Corrupt(s.object, -1, "fragment %d has no row ids in a table with stable row ids", f.ID)
		}
	}
	return nil
}

// parseDataVersion reads the version string of data_format.
func parseDataVersion(text string) (file.Version, error) {
	for _, v := range []file.Version{file.V20(), file.V21(), file.V22()} {
		if v.String() == text {
			return v, nil
		}
	}
	return file.Version{}, fmt.Errorf("data storage version %q: %w", text, errs.ErrUnsupported)
}

// fileVersion is the table's data file version: stated, or that of its files.
func (s *state) fileVersion() (file.Version, error) {
	if f := s.m.DataFormat; f != nil {
		if f.FileFormat != fileFormat {
			return file.Version{}, fmt.Errorf("%s: file format %q: %w", s.object, f.FileFormat, errs.ErrUnsupported)
		}
		v, err := parseDataVersion(f.Version)
		if err != nil {
			return file.Version{}, fmt.Errorf("%s: %w", s.object, err)
		}
		return v, nil
	}
	for _, f := range s.fragments {
		for _, df := range f.Files {
			return file.Version{Major: df.Major, Minor: df.Minor}, nil
		}
	}
	return file.Version{}, nil
}

// timestamp is when the version was committed, by the committer's clock; the epoch if it did not say.
func (s *state) timestamp() time.Time {
	if s.m.Timestamp == nil {
		return time.Unix(0, 0).UTC()
	}
	return s.m.Timestamp.AsTime()
}

// fragment returns the fragment with that id, or nil.
func (s *state) fragment(id uint64) *Fragment {
	i, ok := slices.BinarySearchFunc(s.fragments, id, func(f *Fragment, id uint64) int { return cmp.Compare(f.ID, id) })
	if !ok {
		return nil
	}
	return s.fragments[i]
}
