package table

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/lance/schema"
)

// conflictRows is the conflict table: the operation to commit against the one that was committed, in the order of
// conflictColumns. "ok": passes. "R": recompute. "I": incompatible. "R?": R if they touch a common fragment (field,
// shard), else ok. "I?": likewise. "rows": passes, rows are compared when the deletion sets are joined.
const conflictRows = `
Append           ok  ok   I  ok ok ok I ok ok   ok ok ok I  ok ok R
Delete           ok  rows I  ok R? R  I ok rows ok ok R? I  ok ok R
Overwrite        ok  ok   R  ok ok ok ok ok ok  ok ok ok I  ok ok R
CreateIndex      ok  ok   I  R? R? ok I ok ok   ok ok R? I  ok ok R
Rewrite          ok  R?   I  R? R? R  I ok R?   ok ok R? ok ok ok R
Merge            R   R    I  ok R  R  I ok R    I  ok R  I  ok ok R
Restore          ok  ok   ok ok ok ok ok ok ok  ok ok ok I  ok ok R
ReserveFragments ok  ok   I  ok ok ok I ok ok   ok ok ok ok ok ok R
Update           ok  rows I  ok R? R  I ok rows ok ok R? R? ok ok R
Project          ok  ok   I  ok ok R  I ok ok   R  ok ok I  ok ok R
UpdateConfig     ok  ok   ok ok ok ok ok ok ok  ok I? ok ok ok ok R
DataReplacement  ok  I?   I  R? R? R  I ok R?   ok ok R? I  ok ok R
UpdateMemWalState I  I    I  I  ok I  I ok R?   I  ok I  R? ok ok R
UpdateBases      ok  ok   ok ok ok ok ok ok ok  ok ok ok ok ok I? R
`

func conflictColumns() []Kind {
	return []Kind{KindAppend, KindDelete, KindOverwrite, KindCreateIndex, KindRewrite, KindMerge, KindRestore, KindReserveFragments,
		KindUpdate, KindProject, KindUpdateConfig, KindDataReplacement, KindUpdateMemWALState, KindClone, KindUpdateBases, KindUnknown}
}

// conflictOperation is an operation that touches fragment 0, field 0, key "k", or 1, 1, "j".
func conflictOperation(k Kind, d *Dataset, which uint64) Operation {
	f := &Fragment{ID: which, PhysicalRows: 10}
	shard := []MergedGeneration{{Shard: uuid.UUID{byte(which)}, Generation: 1}}
	switch k {
	case KindAppend:
		return Append{Fragments: []*Fragment{wideFragment(1)}}
	case KindDelete:
		return Delete{Updated: []*Fragment{f}, DeletedIDs: []uint64{which}}
	case KindOverwrite:
		return Overwrite{Schema: d.Schema()}
	case KindCreateIndex:
		return CreateIndex{New: []IndexEntry{indexOn([]string{"p", "q"}[which], int32(which), uint32(which))}}
	case KindRewrite:
		return Rewrite{Groups: []RewriteGroup{{Old: []*Fragment{f}}}}
	case KindMerge:
		return Merge{Schema: d.Schema(), PreservesNullability: true}
	case KindRestore:
		return Restore{Version: 1}
	case KindReserveFragments:
		return ReserveFragments{Count: 1}
	case KindUpdate:
		return Update{UpdatedFragments: []*Fragment{f}, NewFragments: []*Fragment{wideFragment(1)}, Merged: shard}
	case KindProject:
		return Project{Schema: d.Schema(), PreservesNullability: true}
	case KindUpdateConfig:
		return UpdateConfig{Config: upsertOf(map[string]string{[]string{"k", "j"}[which]: ""})}
	case KindDataReplacement:
		return DataReplacement{Replacements: []Replacement{{FragmentID: which, File: columnFile(int32(which))}}}
	case KindUpdateMemWALState:
		return UpdateMemWALState{Merged: shard}
	case KindUpdateBases:
		return UpdateBases{New: []BasePath{{Name: []string{"p", "q"}[which], Path: []string{"/p", "/q"}[which]}}}
	}
	return Other{Which: k}
}

// TestConflictTable holds judge against every cell, for operations that touch the same and that touch different things.
func TestConflictTable(t *testing.T) {
	_, d := conflictTable(t)
	cells := 0
	for line := range strings.Lines(strings.TrimSpace(conflictRows)) {
		words := strings.Fields(line)
		for i, other := range conflictColumns() {
			for _, same := range []bool{true, false} {
				which := uint64(1)
				if same {
					which = 0
				}
				var mine Operation
				for _, k := range conflictColumns() {
					if k.String() == words[0] {
						mine = conflictOperation(k, d, 0)
					}
				}
				// The stricter rule about merged generations has its own test.
				if u, ok := mine.(Update); ok && other != KindUpdateMemWALState {
					u.Merged = nil
					mine = u
				}
				want := map[string]verdict{"ok": passes, "rows": passes, "R": retryable, "I": incompatible}
				want["R?"], want["I?"] = passes, passes
				if same {
					want["R?"], want["I?"] = retryable, incompatible
				}
				got := judge(mine, d.state, &Transaction{Op: conflictOperation(other, d, which)})
				require.Equalf(t, want[words[i+1]], got, "%s over %s, same thing: %t", words[0], other, same)
				cells++
			}
		}
	}
	require.Equal(t, 14*16*2, cells)
}

// TestConflictFootnotes are the cases the table has no room for.
func TestConflictFootnotes(t *testing.T) {
	_, d := conflictTable(t)
	required := changed("x", func(f *schema.Field) { f.Nullable = false })(d)
	merged := []MergedGeneration{{Shard: uuid.UUID{1}, Generation: 4}}
	upsert := Overwrite{Schema: d.Schema(), ConfigUpsert: map[string]string{"k": "1"}}
	config := UpdateConfig{Config: upsertOf(map[string]string{"k": "2"})}
	remove := CreateIndex{Removed: []uuid.UUID{entryID(t, d, "a")}}
	for _, c := range []struct {
		name  string
		mine  Operation
		other Transaction
		want  verdict
	}{
		{"two overwrites set one key", upsert, Transaction{Op: upsert}, incompatible},
		{"overwrite sets the key of a configuration", upsert, Transaction{Op: config}, incompatible},
		{"configuration sets the key of an overwrite", config, Transaction{Op: upsert}, incompatible},
		{"rows over a column that became required", Append{}, Transaction{Op: Project{Schema: required}}, retryable},
		{"update over a column that became required", Update{}, Transaction{Op: Project{Schema: required}}, retryable},
		{"a required column over rows", Project{Schema: required}, Transaction{Op: Append{}}, retryable},
		{"a required column over deletions", Project{Schema: required}, Transaction{Op: Delete{}}, passes},
		{"a required column over an index", &Project{Schema: required}, Transaction{Op: CreateIndex{}}, passes},
		{"merged generations over rows", Update{Merged: merged}, Transaction{Op: Append{}}, retryable},
		{"merged generations over an update", Update{Merged: merged}, Transaction{Op: Update{}}, retryable},
		{"merged generations over deletions elsewhere", Update{Merged: merged}, Transaction{Op: Delete{}}, passes},
		{"keys looked up over rows", Update{InsertsByKey: true}, Transaction{Op: Append{}}, retryable},
		{"keys looked up over moved rows", Update{InsertsByKey: true}, Transaction{Op: Update{NewFragments: []*Fragment{fakeFragment(1)}}}, retryable},
		{"keys looked up over deletions", Update{InsertsByKey: true}, Transaction{Op: Delete{}}, passes},
		{"MemWAL entry over merged generations", InstallMemWAL(testMemWAL()), Transaction{Op: Update{Merged: merged}}, retryable},
		{"merged generations over the MemWAL entry", UpdateMemWALState{Merged: merged}, Transaction{Op: *InstallMemWAL(testMemWAL())}, retryable},
		{"two base paths of one place", UpdateBases{New: []BasePath{{Name: "a", Path: "/p"}}}, Transaction{Op: UpdateBases{New: []BasePath{{Name: "b", Path: "/p"}}}}, incompatible},
		{"two MemWAL entries", InstallMemWAL(testMemWAL()), Transaction{Op: *InstallMemWAL(testMemWAL())}, retryable},
		{"segment of an index that was dropped", CreateIndex{New: []IndexEntry{indexOn("a", 0, 2)}}, Transaction{Op: CreateIndex{removedNames: []string{"a"}}}, retryable},
		{"drop of an index that got a segment", remove, Transaction{Op: CreateIndex{New: []IndexEntry{indexOn("a", 0, 2)}}}, retryable},
		{"index over rewritten columns", CreateIndex{New: []IndexEntry{indexOn("z", 0, 0)}}, Transaction{Op: Update{}, movesColumns: true}, passes},
		{"deletions over rewritten columns", Delete{DeletedIDs: []uint64{0}}, Transaction{Op: Update{UpdatedFragments: []*Fragment{{ID: 0}}}, movesColumns: true}, retryable},
		{"column over schema metadata", Merge{Schema: d.Schema()}, Transaction{Op: UpdateConfig{}, touchesSchema: true}, retryable},
		{"restore over schema metadata", Restore{Version: 1}, Transaction{Op: UpdateConfig{}, touchesSchema: true}, incompatible},
		{"files over deletions of rows", DataReplacement{Replacements: []Replacement{{FragmentID: 0}}}, Transaction{Op: Delete{Updated: []*Fragment{{ID: 0}}}}, passes},
	} {
		require.Equal(t, c.want, judge(c.mine, d.state, &c.other), c.name)
	}
}

// TestJoinedDeletions: deletions of one fragment by both sides are both there, in a bitmap file of the newer version.
func TestJoinedDeletions(t *testing.T) {
	ctx := context.Background()
	st, d := conflictTable(t)
	first := commit(t, d, Delete{Updated: []*Fragment{deleteRows(t, d, 0, 1)}})
	mine := Delete{Updated: []*Fragment{deleteRows(t, first, 0, 1, 2, 3), deleteRows(t, first, 1, 9)}}
	theirs := commit(t, first, Update{UpdatedFragments: []*Fragment{deleteRows(t, first, 0, 1, 4, 5)}, NewFragments: []*Fragment{wideFragment(2)}})
	theirs = commit(t, theirs, Project{Schema: without("name")(theirs)})
	got, err := first.CommitRebasing(ctx, mine)
	require.NoError(t, err)
	set, err := got.Deletions(ctx, got.Fragment(0))
	require.NoError(t, err)
	require.Equal(t, []uint32{1, 2, 3, 4, 5}, set.ToArray())
	require.Equal(t, DeletionBitmap, got.Fragment(0).Deletion.Kind)
	require.Equal(t, theirs.Version(), got.Fragment(0).Deletion.ReadVersion)
	require.Equal(t, uint64(1), got.Fragment(1).DeletedRows)
	require.Nil(t, got.Schema().FieldByName("name"), "the other side's change is there")

	// A row in common: nobody knows whose value is meant.
	_, err = first.CommitRebasing(ctx, Delete{Updated: []*Fragment{deleteRows(t, first, 0, 1, 4)}})
	require.ErrorIs(t, err, errs.ErrConflict)
	// The rest of a fragment: together nothing is left of it.
	most := commit(t, got, Delete{Updated: []*Fragment{deleteRows(t, got, 1, 0, 1, 2, 3, 9)}})
	last, err := got.CommitRebasing(ctx, Delete{Updated: []*Fragment{deleteRows(t, got, 1, 4, 5, 6, 7, 8, 9)}})
	require.NoError(t, err)
	require.Nil(t, last.Fragment(1))
	require.Equal(t, most.CountRows()-5, last.CountRows())
	require.Equal(t, last.CountRows(), reopen(t, st).CountRows())
}
