package fragreuse

import (
	"bytes"
	"context"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"lancesql/indexes/store"
	"lancesql/internal/objstore"
	"lancesql/lance/pb"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// treemap is the RoaringTreemap of addresses as the library writes it: a writer that is not ours.
func treemap(t testing.TB, addrs ...rowaddr.Addr) []byte {
	t.Helper()
	b := roaring64.New()
	for _, a := range addrs {
		b.Add(uint64(a))
	}
	b.RunOptimize()
	var out bytes.Buffer
	_, err := b.WriteTo(&out)
	require.NoError(t, err)
	return out.Bytes()
}

// addrs parses "3:1 4:0"; "-" is Gone.
func addrs(t testing.TB, text string) []rowaddr.Addr {
	t.Helper()
	out := []rowaddr.Addr{}
	for _, word := range strings.Fields(text) {
		if word == "-" {
			out = append(out, Gone)
			continue
		}
		f, o, ok := strings.Cut(word, ":")
		require.True(t, ok, word)
		out = append(out, rowaddr.New(number(t, f), number(t, o)))
	}
	return out
}

func number(t testing.TB, s string) uint32 {
	n := uint32(0)
	for _, r := range s {
		require.True(t, r >= '0' && r <= '9', s)
		n = 10*n + uint32(r-'0')
	}
	return n
}

func spell(list []rowaddr.Addr) string {
	words := make([]string, len(list))
	for i, a := range list {
		words[i] = "-"
		if a != Gone {
			words[i] = a.String()
		}
	}
	return strings.Join(words, " ")
}

// digests takes id, physical and deleted rows of each fragment.
func digests(numbers ...uint64) []*pb.FragmentReuseDigest {
	var out []*pb.FragmentReuseDigest
	for i := 0; i < len(numbers); i += 3 {
		out = append(out, &pb.FragmentReuseDigest{Id: numbers[i], PhysicalRows: numbers[i+1], NumDeletedRows: numbers[i+2]})
	}
	return out
}

func legacy(version uint64, groups ...*pb.FragmentReuseGroup) *pb.FragmentReuseVersion {
	return &pb.FragmentReuseVersion{DatasetVersion: version, Groups: groups}
}

func ordered(survivors []byte, sources, destinations []*pb.FragmentReuseDigest) *pb.FragmentReuseTransition {
	return &pb.FragmentReuseTransition{Sources: sources, Destinations: destinations, Mapping: &pb.FragmentReuseTransition_OrderedCompaction{
		OrderedCompaction: &pb.FragmentReuseOrderedCompaction{ChangedRowAddrs: survivors},
	}}
}

func decode(t testing.TB, content *pb.FragmentReuseContent) *table.FragmentReuse {
	t.Helper()
	raw, err := proto.Marshal(content)
	require.NoError(t, err)
	version := int32(0)
	if len(content.Transitions) > 0 {
		version = 1
	}
	h, err := table.DecodeFragmentReuse("content", raw, version)
	require.NoError(t, err)
	return h
}

func history(t testing.TB, content *pb.FragmentReuseContent) *History {
	t.Helper()
	return New(decode(t, content), Options{})
}

// requireTranslates checks the whole chain of single addresses.
func requireTranslates(t testing.TB, h *History, from, to string) {
	t.Helper()
	list := addrs(t, from)
	require.NoError(t, h.Translate(context.Background(), list))
	require.Equal(t, to, spell(list))
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(strings.ReplaceAll(s, " ", ""), "\n", ""))
	require.NoError(t, err)
	return b
}

func memDir() store.Dir { return store.NewDir(objstore.NewMem(), "t.lance", nil) }

// writeMap writes a row map of the given block size; labels of all sources in order.
func writeMap(t testing.TB, dir store.Dir, destinations int, blockRows uint64, labels ...int32) *table.ReusePartition {
	t.Helper()
	w, err := newRowMapWriter(context.Background(), dir, uuid.New(), destinations, blockRows)
	require.NoError(t, err)
	require.NoError(t, w.Append(labels))
	p, _, err := w.Finish(context.Background())
	require.NoError(t, err)
	return p
}

func partition(p *table.ReusePartition, sources, destinations []*pb.FragmentReuseDigest) *pb.FragmentReuseTransition {
	return &pb.FragmentReuseTransition{Sources: sources, Destinations: destinations, Mapping: &pb.FragmentReuseTransition_StablePartition{
		StablePartition: &pb.FragmentReuseStablePartition{MapId: p.MapID.String(), MapSizeBytes: p.Size, BaseId: p.BaseID},
	}}
}

func bitmap(ids ...uint32) *roaring.Bitmap { return roaring.BitmapOf(ids...) }

func contentOf(list ...*pb.FragmentReuseTransition) *pb.FragmentReuseContent {
	return &pb.FragmentReuseContent{Transitions: list}
}
