package inspect

// MemWAL is the MemWAL entry of a manifest.
type MemWAL struct {
	NumShards         uint32             `json:"num_shards"`
	ShardingSpecs     []ShardingSpec     `json:"sharding_specs"`
	Merged            []MergedGeneration `json:"merged_generations"`
	MaintainedIndexes []string           `json:"maintained_indexes,omitempty"`
	MaintainAll       bool               `json:"maintain_all_indexes,omitempty"`
	Catchup           []IndexCatchup     `json:"index_catchup,omitempty"`
	WriterDefaults    map[string]string  `json:"writer_config_defaults,omitempty"`
	InlineSnapshots   int                `json:"inline_snapshot_bytes,omitempty"`
}

// ShardingSpec says how rows are assigned to shards.
type ShardingSpec struct {
	ID     uint32          `json:"id"`
	Fields []ShardingField `json:"fields"`
}

// ShardingField is one component of a sharding spec.
type ShardingField struct {
	ID         string            `json:"id"`
	Sources    []int32           `json:"source_ids,omitempty"`
	Transform  string            `json:"transform,omitempty"`
	Expression string            `json:"expression,omitempty"`
	ResultType string            `json:"result_type"`
	Parameters map[string]string `json:"parameters,omitempty"`
}

// MergedGeneration is the highest generation of a shard that is part of the base table.
type MergedGeneration struct {
	Shard      string `json:"shard"`
	Generation uint64 `json:"generation"`
}

// IndexCatchup says up to which generations an index covers merged rows.
type IndexCatchup struct {
	Index    string             `json:"index"`
	CaughtUp []MergedGeneration `json:"caught_up_generations"`
}

// Shard is one shard of a table with MemWAL state.
type Shard struct {
	ID       string         `json:"id"`
	Path     string         `json:"path"`
	Versions int            `json:"manifest_versions"` // manifest objects present
	Manifest *ShardManifest `json:"manifest,omitempty"`
	WAL      []WALEntry     `json:"wal"`               // by position
	Orphans  []string       `json:"orphans,omitempty"` // generation directories that the manifest does not name
}

// ShardManifest is one version of a shard's manifest.
type ShardManifest struct {
	Object            string            `json:"object"`
	Version           uint64            `json:"version"`
	Shard             string            `json:"shard"`
	Status            string            `json:"status"` // active or sealed
	Epoch             uint64            `json:"writer_epoch"`
	ReplayAfter       uint64            `json:"replay_after_wal_entry_position"`
	LastSeen          uint64            `json:"wal_entry_position_last_seen"`
	CurrentGeneration uint64            `json:"current_generation"`
	SpecID            uint32            `json:"shard_spec_id"`
	FieldEntries      map[string]string `json:"shard_field_entries,omitempty"` // values in hex
	Generations       []Generation      `json:"flushed_generations"`
}

// Generation is a flushed MemTable.
type Generation struct {
	Generation      uint64  `json:"generation"`
	Path            string  `json:"path"`   // below the shard's directory
	Merged          bool    `json:"merged"` // part of the base table already; known when the dataset is inspected
	PhysicalRows    *uint64 `json:"physical_rows,omitempty"`
	InMemoryBytes   *uint64 `json:"in_memory_bytes,omitempty"`
	PrimaryKeyBytes *uint64 `json:"primary_key_bytes,omitempty"`
	MaxRowID        *uint64 `json:"max_row_id,omitempty"`
	// Found is what the generation's own newest version says; of datasets only.
	Found *Summary `json:"found,omitempty"`
}

// WALEntry is one entry of a shard's log.
type WALEntry struct {
	Position   uint64 `json:"position"` // by its name, 0 if that says nothing
	Size       int64  `json:"size"`
	Epoch      uint64 `json:"writer_epoch"`
	Sentinel   bool   `json:"fence_sentinel"`
	Generation uint64 `json:"generation,omitempty"` // left out if not recorded
	Rows       int64  `json:"rows"`
	Batches    int    `json:"batches"`
	Covered    bool   `json:"covered,omitempty"` // at or below the replay cursor; of datasets only
	Damaged    bool   `json:"damaged,omitempty"` // the rest is unknown; the problem is in the list
	// Columns describes the batches of an entry inspected alone.
	Columns []EntryColumn `json:"columns,omitempty"`
}

// EntryColumn is one column of the batches of a WAL entry.
type EntryColumn struct {
	Name     string `json:"name"`
	Type     string `json:"type"` // Arrow type
	Nullable bool   `json:"nullable"`
}

// DataDirectory is a lancesql data directory in brief.
type DataDirectory struct {
	FormatVersion  string     `json:"format_version"`
	CatalogVersion uint64     `json:"catalog_version"`
	Databases      []Database `json:"databases"`
}

// Database is one database of a data directory.
type Database struct {
	Name   string         `json:"name"`
	Tables []TableSummary `json:"tables"`
}

// TableSummary is a table in brief.
type TableSummary struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Summary
	Shards []ShardSummary `json:"shards,omitempty"`
}

// Summary is the newest version of a dataset in brief.
type Summary struct {
	Version      uint64 `json:"version"`
	Rows         uint64 `json:"rows"` // live
	PhysicalRows uint64 `json:"physical_rows"`
	Fragments    int    `json:"fragments"`
	DataBytes    uint64 `json:"data_bytes"`
	Indexes      int    `json:"indexes"`
}

// ShardSummary is a shard in brief.
type ShardSummary struct {
	ID          string `json:"id"`
	Epoch       uint64 `json:"writer_epoch"`
	Generations int    `json:"flushed_generations"`
	WALEntries  int    `json:"wal_entries"` // behind the replay cursor
	WALBytes    int64  `json:"wal_bytes"`   // of those
}
