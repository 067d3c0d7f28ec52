package lsm_test

import (
	"path"
	"slices"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"lancesql/lance/pb"
	"lancesql/wal"
)

// manifest changes the newest shard manifest in place.
func (d damager) manifest(change func(m *pb.ShardManifest)) {
	names := d.list(checkedShard+"/manifest", ".binpb")
	newest := slices.MaxFunc(names, func(a, b string) int {
		x, _ := wal.ParseBitReversed(path.Base(a))
		y, _ := wal.ParseBitReversed(path.Base(b))
		return int(x) - int(y)
	})
	m := &pb.ShardManifest{}
	require.NoError(d.t, proto.Unmarshal(d.read(newest), m))
	change(m)
	b, err := proto.Marshal(m)
	require.NoError(d.t, err)
	d.put(newest, b)
}
