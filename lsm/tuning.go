package lsm

// Tuning is what may change about a table while it is open. It says how later merges and rewrites write; what is there
// already is used as it is.
type Tuning struct {
	ZoneMaps     ZoneMapOptions
	FragmentRows int64 // rows a fragment should have; 0: Options.RowsPerFragment
	// Indexes are the BITMAP and BLOOMFILTER indexes to keep. One that is not named any more stays as it is, and is used.
	Indexes []ScanIndex
}

// Tune changes how the table is written from the next merge or rewrite on.
func (t *Table) Tune(x Tuning) {
	x = x.withDefaults(t.o.RowsPerFragment)
	t.tuned.Store(&x)
}

func (x Tuning) withDefaults(fragmentRows int64) Tuning {
	if x.ZoneMaps.EveryRows == 0 {
		x.ZoneMaps.EveryRows = zoneRowsDefault
	}
	setDefault(&x.FragmentRows, fragmentRows)
	return x
}

// tuning returns what is in force.
func (t *Table) tuning() Tuning {
	if x := t.tuned.Load(); x != nil {
		return *x
	}
	return Tuning{ZoneMaps: t.o.ZoneMaps}.withDefaults(t.o.RowsPerFragment)
}
