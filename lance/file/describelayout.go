package file

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"lancesql/lance/pb"
)

// PageDescription is one page of a column.
type PageDescription struct {
	Rows      uint64 // top-level rows; items for the inner columns of a 2.0 file
	Priority  uint64 // recorded number of the first top-level row
	Layout    string // mini-block, full-zip, constant, blob, sparse; array in 2.0 files; "" if unreadable
	Levels    []string
	Items     uint64 // value slots (mini-block) or entries (full-zip), 0 if the layout has no count
	Chunks    uint64 // of a mini-block page
	Encodings []PartEncoding
	Buffers   []Region
}

// PartEncoding says how one part of a page is encoded: values, repetition, definition, dictionary or value (of a
// constant page). Encoding is a name, with parameters and inner encodings in parentheses.
type PartEncoding struct{ Part, Encoding string }

// encodingDepthMax bounds the nesting of encodings that is followed.
const encodingDepthMax = 32

var (
	errNoEncoding = errors.New("an encoding is missing")
	errDeep       = fmt.Errorf("encodings nest deeper than %d levels", encodingDepthMax)
)

// unwrapAny returns the message of that type inside e.
func unwrapAny(e *pb.MetaEncoding, url string) ([]byte, error) {
	raw := e.GetDirect().GetEncoding()
	if len(raw) == 0 {
		return nil, errors.New("no encoding description")
	}
	var a pb.AnyMessage
	if err := proto.Unmarshal(raw, &a); err != nil {
		return nil, fmt.Errorf("encoding description: %w", err)
	}
	if a.GetTypeUrl() != url {
		return nil, fmt.Errorf("encoding description of type %q", a.GetTypeUrl())
	}
	return a.GetValue(), nil
}

func columnEncodingText(e *pb.MetaEncoding) (string, error) {
	raw, err := unwrapAny(e, columnEncodingURL)
	if err != nil {
		return "", err
	}
	var m pb.ColumnEncoding20
	if err := proto.Unmarshal(raw, &m); err != nil {
		return "", fmt.Errorf("column encoding: %w", err)
	}
	switch m.GetColumnEncoding().(type) {
	case *pb.ColumnEncoding20_Values:
		return "values", nil
	case *pb.ColumnEncoding20_Blob_:
		return "blob", nil
	}
	return "unknown", nil
}

// describe fills in what the page's encoding message says; buffers are named after their part.
func (p *PageDescription) describe(e *pb.MetaEncoding, arrays bool) []error {
	url := layoutURL
	if arrays {
		url = arrayEncodingURL
	}
	raw, err := unwrapAny(e, url)
	if err != nil {
		return []error{err}
	}
	t := &encodingText{}
	if arrays {
		var m pb.ArrayEncoding20
		if err := proto.Unmarshal(raw, &m); err != nil {
			return []error{fmt.Errorf("array encoding: %w", err)}
		}
		p.Layout = "array"
		p.Encodings = []PartEncoding{{"values", t.array(&m, 0)}}
		return t.problems
	}
	var m pb.PageLayout
	if err := proto.Unmarshal(raw, &m); err != nil {
		return []error{fmt.Errorf("page layout: %w", err)}
	}
	p.layout(&m, t)
	return t.problems
}

func (p *PageDescription) layout(m *pb.PageLayout, t *encodingText) {
	switch l := m.GetLayout().(type) {
	case *pb.PageLayout_MiniBlock:
		p.miniBlock(l.MiniBlock, t)
	case *pb.PageLayout_FullZip:
		p.fullZip(l.FullZip, t)
	case *pb.PageLayout_Constant:
		p.constant(l.Constant, t)
	case *pb.PageLayout_Blob:
		inner := l.Blob.GetInnerLayout()
		if _, nested := inner.GetLayout().(*pb.PageLayout_Blob); nested {
			t.problem(errors.New("a blob layout inside a blob layout"))
			return
		}
		p.layout(inner, t)
		p.Layout, p.Levels = "blob("+p.Layout+")", levelTexts(l.Blob.GetLayers())
	case *pb.PageLayout_Sparse:
		p.Layout = "sparse"
	default:
		t.problem(errors.New("page layout of an unknown kind"))
	}
}

func (p *PageDescription) name(roles ...string) {
	for i := range min(len(roles), len(p.Buffers)) {
		p.Buffers[i].Role = roles[i]
	}
}

func (p *PageDescription) encoded(part string, e *pb.CompressiveEncoding, t *encodingText) {
	if e != nil {
		p.Encodings = append(p.Encodings, PartEncoding{part, t.encoding(e, 0)})
	}
}

func (p *PageDescription) miniBlock(l *pb.MiniBlockLayout, t *encodingText) {
	p.Layout, p.Levels, p.Items = "mini-block", levelTexts(l.GetLayers()), l.GetNumItems()
	if l.GetValueCompression() == nil {
		t.problem(errNoEncoding)
	}
	p.encoded("values", l.GetValueCompression(), t)
	p.encoded("repetition", l.GetRepCompression(), t)
	p.encoded("definition", l.GetDefCompression(), t)
	roles := []string{"chunk-index", "chunks"}
	if l.GetDictionary() != nil {
		p.Encodings = append(p.Encodings, PartEncoding{"dictionary", fmt.Sprintf("%s of %d", t.encoding(l.GetDictionary(), 0), l.GetNumDictionaryItems())})
		roles = append(roles, "dictionary")
	}
	if l.GetRepetitionIndexDepth() > 0 {
		roles = append(roles, "repetition-index")
	}
	p.name(roles...)
	word := uint64(2)
	if l.GetHasLargeChunk() {
		word = 4
	}
	if len(p.Buffers) > 0 {
		p.Chunks = p.Buffers[0].Size / word
	}
}

func (p *PageDescription) fullZip(l *pb.FullZipLayout, t *encodingText) {
	p.Layout, p.Levels, p.Items = "full-zip", levelTexts(l.GetLayers()), uint64(l.GetNumItems())
	if l.GetValueCompression() == nil {
		t.problem(errNoEncoding)
	}
	p.encoded("values", l.GetValueCompression(), t)
	if n := l.GetBitsRep(); n > 0 {
		p.Encodings = append(p.Encodings, PartEncoding{"repetition", fmt.Sprintf("flat(%d)", n)})
	}
	if n := l.GetBitsDef(); n > 0 {
		p.Encodings = append(p.Encodings, PartEncoding{"definition", fmt.Sprintf("flat(%d)", n)})
	}
	p.name("values", "repetition-index")
}

func (p *PageDescription) constant(l *pb.ConstantLayout, t *encodingText) {
	p.Layout, p.Levels = "constant", levelTexts(l.GetLayers())
	value := "null"
	switch {
	case l.InlineValue != nil:
		value = "0x" + hex.EncodeToString(l.GetInlineValue()[:min(len(l.GetInlineValue()), 32)])
		p.name("repetition", "definition")
	case len(p.Buffers)%2 == 1:
		value = "stored"
		p.name("value", "repetition", "definition")
	default:
		p.name("repetition", "definition")
	}
	p.Encodings = append(p.Encodings, PartEncoding{"value", value})
	p.encoded("repetition", l.GetRepCompression(), t)
	p.encoded("definition", l.GetDefCompression(), t)
}

// levelTexts names the nesting levels, innermost first.
func levelTexts(layers []pb.RepDefLayer) []string {
	names := [...]string{"unspecified", "all-valid-item", "all-valid-list", "nullable-item", "nullable-list", "emptyable-list", "null-and-empty-list"}
	var out []string
	for _, l := range layers {
		if l < 0 || int(l) >= len(names) {
			out = append(out, fmt.Sprintf("unknown-%d", l))
			continue
		}
		out = append(out, names[l])
	}
	return out
}

// encodingText turns encoding messages into text and collects what is wrong with them.
type encodingText struct{ problems []error }

func (t *encodingText) problem(err error) { t.problems = append(t.problems, err) }

// callText renders name(argument, …).
func callText(name string, args ...string) string { return name + "(" + strings.Join(args, ", ") + ")" }

func numberText(n uint64) string { return fmt.Sprintf("%d", n) }

func (t *encodingText) encoding(e *pb.CompressiveEncoding, depth int) string {
	if depth > encodingDepthMax {
		t.problem(errDeep)
		return "?"
	}
	inner := func(x *pb.CompressiveEncoding) string { return t.encoding(x, depth+1) }
	switch c := e.GetCompression().(type) {
	case *pb.CompressiveEncoding_Flat:
		return callText("flat", numberText(c.Flat.GetBitsPerValue()))
	case *pb.CompressiveEncoding_Variable:
		return callText("variable", inner(c.Variable.GetOffsets()))
	case *pb.CompressiveEncoding_Constant:
		return "constant"
	case *pb.CompressiveEncoding_OutOfLineBitpacking:
		return callText("bitpacked", numberText(c.OutOfLineBitpacking.GetUncompressedBitsPerValue()), inner(c.OutOfLineBitpacking.GetValues()))
	case *pb.CompressiveEncoding_InlineBitpacking:
		return callText("inline-bitpacked", numberText(c.InlineBitpacking.GetUncompressedBitsPerValue()))
	case *pb.CompressiveEncoding_Fsst:
		return callText("fsst", inner(c.Fsst.GetValues()))
	case *pb.CompressiveEncoding_Dictionary:
		return callText("dictionary", inner(c.Dictionary.GetIndices()), inner(c.Dictionary.GetItems()))
	case *pb.CompressiveEncoding_Rle:
		return callText("rle", inner(c.Rle.GetValues()), inner(c.Rle.GetRunLengths()))
	case *pb.CompressiveEncoding_ByteStreamSplit:
		return callText("byte-stream-split", inner(c.ByteStreamSplit.GetValues()))
	case *pb.CompressiveEncoding_General:
		return callText(schemeText(c.General.GetCompression().GetScheme()), inner(c.General.GetValues()))
	case *pb.CompressiveEncoding_FixedSizeList:
		args := []string{numberText(c.FixedSizeList.GetItemsPerValue()), inner(c.FixedSizeList.GetValues())}
		if c.FixedSizeList.GetHasValidity() {
			args = append(args, "nullable")
		}
		return callText("fixed-size-list", args...)
	case *pb.CompressiveEncoding_PackedStruct:
		return callText("packed-struct", inner(c.PackedStruct.GetValues()))
	case *pb.CompressiveEncoding_VariablePackedStruct:
		var args []string
		for _, f := range c.VariablePackedStruct.GetFields() {
			args = append(args, inner(f.GetValue()))
		}
		return callText("packed-struct", args...)
	case *pb.CompressiveEncoding_Range:
		return callText("range", numberText(c.Range.GetBitsPerValue()))
	case *pb.CompressiveEncoding_Delta:
		return callText("delta", inner(c.Delta.GetDeltas()))
	}
	t.problem(errNoEncoding)
	return "?"
}

func schemeText(s pb.CompressionScheme) string {
	switch s {
	case pb.CompressionScheme_COMPRESSION_LZ4:
		return "lz4"
	case pb.CompressionScheme_COMPRESSION_ZSTD:
		return "zstd"
	}
	return fmt.Sprintf("compression-%d", s)
}

// array renders the encodings of 2.0 files.
func (t *encodingText) array(e *pb.ArrayEncoding20, depth int) string {
	if depth > encodingDepthMax {
		t.problem(errDeep)
		return "?"
	}
	inner := func(x *pb.ArrayEncoding20) string { return t.array(x, depth+1) }
	switch a := e.GetArrayEncoding().(type) {
	case *pb.ArrayEncoding20_Flat:
		text := callText("flat", numberText(a.Flat.GetBitsPerValue()))
		if scheme := a.Flat.GetCompression().GetScheme(); scheme != "" {
			return callText(scheme, text)
		}
		return text
	case *pb.ArrayEncoding20_Nullable:
		switch n := a.Nullable.GetNullability().(type) {
		case *pb.Nullable20_NoNulls:
			return inner(n.NoNulls.GetValues())
		case *pb.Nullable20_SomeNulls:
			return callText("nullable", inner(n.SomeNulls.GetValues()), inner(n.SomeNulls.GetValidity()))
		case *pb.Nullable20_AllNulls:
			return "all-null"
		}
	case *pb.ArrayEncoding20_FixedSizeList:
		return callText("fixed-size-list", numberText(uint64(a.FixedSizeList.GetDimension())), inner(a.FixedSizeList.GetItems()))
	case *pb.ArrayEncoding20_List:
		return callText("list", inner(a.List.GetOffsets()))
	case *pb.ArrayEncoding20_Struct:
		return "struct"
	case *pb.ArrayEncoding20_Binary:
		return callText("binary", inner(a.Binary.GetIndices()), inner(a.Binary.GetBytes()))
	case *pb.ArrayEncoding20_Dictionary:
		return callText("dictionary", inner(a.Dictionary.GetIndices()), inner(a.Dictionary.GetItems()), numberText(uint64(a.Dictionary.GetNumDictionaryItems())))
	case *pb.ArrayEncoding20_Fsst:
		return callText("fsst", inner(a.Fsst.GetBinary()))
	case *pb.ArrayEncoding20_PackedStruct:
		var args []string
		for _, x := range a.PackedStruct.GetInner() {
			args = append(args, inner(x))
		}
		return callText("packed-struct", args...)
	case *pb.ArrayEncoding20_Bitpacked:
		return callText("bitpacked", numberText(a.Bitpacked.GetUncompressedBitsPerValue()), numberText(a.Bitpacked.GetCompressedBitsPerValue()))
	case *pb.ArrayEncoding20_FixedSizeBinary:
		return callText("fixed-size-binary", numberText(uint64(a.FixedSizeBinary.GetByteWidth())))
	case *pb.ArrayEncoding20_BitpackedForNonNeg:
		return callText("bitpacked", numberText(a.BitpackedForNonNeg.GetUncompressedBitsPerValue()), numberText(a.BitpackedForNonNeg.GetCompressedBitsPerValue()))
	case *pb.ArrayEncoding20_Constant:
		return "constant"
	}
	t.problem(errNoEncoding)
	return "?"
}
