package fragreuse

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"lancesql/indexes/store"
	"lancesql/internal/objstore"
	"lancesql/lance/pb"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// The goldens were made over a table of 40 rows in fragments 0 to 3 of ten each, id = position, of which 1, 11 and 35 were
// deleted.
//
//	legacy_details.bin    what pylance 14.0.2 wrote when it compacted them into fragment 4
//	stable_partition.lance, tagged_details.bin
//	                      our partition by id modulo 2 into 4 and 5, through which pylance 14.0.2 answered queries; then
//	                      12 was deleted and pylance compacted 4 and 5 into 7 and added that to the entry

func golden(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return b
}

func goldenHistory(t *testing.T, name string, version int32) *table.FragmentReuse {
	t.Helper()
	details := &pb.FragmentReuseIndexDetails{}
	require.NoError(t, proto.Unmarshal(golden(t, name), details))
	content, err := proto.Marshal(details.GetInline())
	require.NoError(t, err)
	h, err := table.DecodeFragmentReuse(name, content, version)
	require.NoError(t, err)
	return h
}

// requireGolden translates all 40 addresses; where says what becomes of a row that survived.
func requireGolden(t *testing.T, h *History, gone map[int]bool, order []int, fragment uint32) {
	t.Helper()
	list, want := make([]rowaddr.Addr, 40), make([]rowaddr.Addr, 40)
	for id := range list {
		list[id], want[id] = rowaddr.New(uint32(id/10), uint32(id%10)), Gone
	}
	next := uint32(0)
	for _, id := range order {
		if !gone[id] {
			want[id] = rowaddr.New(fragment, next)
			next++
		}
	}
	require.NoError(t, h.Translate(context.Background(), list))
	require.Equal(t, spell(want), spell(list))
	tr, err := h.For(context.Background(), bitmap(0, 1, 2, 3))
	require.NoError(t, err)
	require.Equal(t, []uint32{fragment}, tr.Coverage().ToArray())
}

func TestGoldens(t *testing.T) {
	var straight, parted []int
	for id := range 40 {
		straight = append(straight, id)
		if id%2 == 0 {
			parted = append(parted, id)
		}
	}
	for id := 1; id < 40; id += 2 {
		parted = append(parted, id)
	}
	requireGolden(t, New(goldenHistory(t, "legacy_details.bin", 0), Options{}), map[int]bool{1: true, 11: true, 35: true}, straight, 4)

	reuse := goldenHistory(t, "tagged_details.bin", 1)
	require.Len(t, reuse.Steps, 2)
	st := objstore.NewMem()
	require.NoError(t, st.PutIfAbsent(context.Background(), reuse.Steps[0].Partition.Object(), golden(t, "stable_partition.lance")))
	h := New(reuse, Options{Maps: In(store.NewDir(st, "", nil))})
	requireGolden(t, h, map[int]bool{1: true, 11: true, 35: true, 12: true}, parted, 7)
}
