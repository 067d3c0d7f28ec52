package schema

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"lancesql/internal/errs"
)

// resolvePrimaryKey sets PKPosition from the metadata keys: fields with a position in that order, then marked fields
// without one by id. It establishes invariant 3.
// Spec: table format, "Metadata keys with meaning".
func (s *Schema) resolvePrimaryKey() error {
	var placed, unplaced []*Field
	position := make(map[*Field]uint32)
	var failed error
	s.Walk(func(f *Field) {
		f.PKPosition = 0
		if v, ok := f.Metadata[KeyPrimaryKeyPosition]; ok {
			n, err := parsePosition(v)
			if err != nil {
				failed = fmt.Errorf("field %q: primary key position %q: %w", f.Name, v, errs.ErrInvalid)
				return
			}
			position[f] = n
			placed = append(placed, f)
		} else if marked(f.Metadata[KeyPrimaryKey]) {
			unplaced = append(unplaced, f)
		}
	})
	if failed != nil {
		return failed
	}
	sort.SliceStable(placed, func(i, j int) bool { return position[placed[i]] < position[placed[j]] })
	sort.SliceStable(unplaced, func(i, j int) bool { return unplaced[i].ID < unplaced[j].ID })
	last := uint32(0)
	for _, f := range placed {
		if position[f] == last {
			return fmt.Errorf("primary key position %d appears twice: %w", last, errs.ErrInvalid)
		}
		last = position[f]
		f.PKPosition = last
	}
	for _, f := range unplaced {
		last++
		f.PKPosition = last
	}
	return nil
}

func marked(v string) bool {
	switch strings.ToLower(v) {
	case "true", "1", "yes":
		return true
	}
	return false
}

// parsePosition reads a 1-based decimal position.
func parsePosition(v string) (uint32, error) {
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, errs.ErrInvalid
	}
	return uint32(n), nil
}
