package sqlbackend

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"lancesql/engine"
	"lancesql/lsm"
)

// Options of a table are words of its comment, name=value, since the grammar knows no other way. Any other text may stand
// around them; letter case does not count.
const (
	freshnessOption   = "freshness"     // SECONDS, 0 = off: the table's own lancesql_freshness
	zoneMapsOption    = "zone_maps"     // on, off, v1: the newer statistics, which Lance 14 passes over
	rowsPerZoneOption = "rows_per_zone" // ROWS
	fragmentOption    = "fragment_rows" // ROWS a fragment should have
	compactionOption  = "compaction"    // on, off: in the background
	remapOption       = "remap_after"   // MOVES of its rows before a segment is rewritten, 0 = never
)

const (
	rowsPerZoneMax  = 1 << 24
	fragmentRowsMax = 1 << 30
	remapAfterMax   = 1000
)

// optionText returns what follows name= in a comment: its beginning is the value.
func optionText(comment, name string) (text string, found bool) {
	text = strings.ToLower(comment)
	for {
		before, after, found := strings.Cut(text, name+"=")
		if !found {
			return "", false
		}
		if n := len(before); n == 0 || !isWord(before[n-1]) {
			return after, true
		}
		text = after
	}
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || c >= 0x80
}

// numberOption reads an option that is a number from least to most; def if it is not there.
func numberOption(comment, name, unit string, least, most, def int64) (int64, error) {
	text, found := optionText(comment, name)
	if !found {
		return def, nil
	}
	if end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		text = text[:end]
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, newError(1105, "table comment: %s=%s needs a number of %s from %d to %d", name, strings.ToUpper(unit), unit, least, most)
	}
	return n, nil
}

// wordOption reads an option that is one of some words, the first of which is the default.
func wordOption(comment, name string, words ...string) (string, error) {
	text, found := optionText(comment, name)
	if !found {
		return words[0], nil
	}
	if end := strings.IndexFunc(text, func(r rune) bool { return r < 0x80 && !isWord(byte(r)) }); end >= 0 {
		text = text[:end]
	}
	for _, w := range words {
		if text == w {
			return w, nil
		}
	}
	return "", newError(1105, "table comment: %s needs one of %s", name, strings.Join(words, ", "))
}

// tableOptionsOf reads the options in a table comment.
func tableOptionsOf(comment string) (o engine.TableOptions, err error) {
	if !strings.Contains(comment, "=") {
		return o, nil
	}
	seconds, err := numberOption(comment, freshnessOption, "seconds", 0, freshnessMax, -1)
	switch {
	case err != nil:
		return o, err
	case seconds == 0:
		o.Freshness = -1
	case seconds > 0:
		o.Freshness = time.Duration(seconds) * time.Second
	}
	maps, err := wordOption(comment, zoneMapsOption, "on", "off", "v1")
	if err != nil {
		return o, err
	}
	o.ZoneMaps.Off = maps == "off"
	if maps == "v1" {
		o.ZoneMaps.Version = 1
	}
	rows, err := numberOption(comment, rowsPerZoneOption, "rows", 1, rowsPerZoneMax, 0)
	if err != nil {
		return o, err
	}
	o.ZoneMaps.RowsPerZone = uint64(rows)
	if o.FragmentRows, err = numberOption(comment, fragmentOption, "rows", 1, fragmentRowsMax, 0); err != nil {
		return o, err
	}
	compaction, err := wordOption(comment, compactionOption, "on", "off")
	if err != nil {
		return o, err
	}
	o.NoCompaction = compaction == "off"
	moves, err := numberOption(comment, remapOption, "moves", 0, remapAfterMax, -1)
	switch {
	case err != nil:
		return o, err
	case moves == 0:
		o.RemapFrom = -1
	case moves > 0:
		o.RemapFrom = int(moves)
	}
	return o, nil
}

// TableOptions returns what a table's definition asks for, for engine.Components.TableOptions. It does no I/O.
func TableOptions(t *engine.TableEntry) engine.TableOptions {
	var s struct {
		Comment string `json:"comment"`
		Columns []struct {
			Name string `json:"name"`
		} `json:"columns"`
		Indexes []shapeIndex `json:"indexes"`
	}
	if len(t.Shape) == 0 || json.Unmarshal(t.Shape, &s) != nil {
		return engine.TableOptions{} // Why: what is wrong with a definition is said when the table is used
	}
	o, err := tableOptionsOf(s.Comment)
	if err != nil {
		o = engine.TableOptions{} // Why: refused where it is written; only a definition from elsewhere has one
	}
	for _, x := range s.Indexes {
		for c := range s.Columns {
			if x.scans() && len(x.Parts) == 1 && strings.EqualFold(s.Columns[c].Name, x.Parts[0].Column) {
				o.Indexes = append(o.Indexes, lsm.ScanIndex{Name: x.Name, Column: c, Kind: scanKindOf(x.Kind)})
			}
		}
	}
	return o
}
