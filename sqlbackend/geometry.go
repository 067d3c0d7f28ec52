package sqlbackend

import (
	"context"
	"fmt"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"lancesql/internal/errs"
)

// geometryCodec stores a spatial value as MySQL does: four bytes of SRID, little-endian, and its WKB.
func geometryCodec(t sql.Type) codec {
	return codec{
		arrow: arrow.BinaryTypes.Binary,
		encode: func(ctx context.Context, v any) (any, error) {
			v, err := sql.UnwrapAny(ctx, v)
			if err != nil {
				return nil, err
			}
			g, ok := v.(types.GeometryValue)
			if !ok {
				c, _, err := t.Convert(ctx, v)
				if err != nil {
					return nil, err
				}
				if g, ok = c.(types.GeometryValue); !ok {
					return nil, fmt.Errorf("a %T for a column of type %s: %w", v, t, errs.ErrInvalid)
				}
			}
			if s, ok := t.(sql.SpatialColumnType); ok {
				if err := s.MatchSRID(g); err != nil {
					return nil, err
				}
			}
			return g.Serialize(), nil
		},
		decode: func(cell any) (v any, err error) {
			b, ok := cell.([]byte)
			if !ok {
				return nil, cellError(cell, t)
			}
			// Why: the frontend's reader trusts the counts inside.
			defer func() {
				if p := recover(); p != nil {
					v, err = nil, errs.Corrupt("spatial value", -1, "%v", p)
				}
			}()
			if v, _, err = t.Convert(context.Background(), b); err != nil {
				return nil, errs.Corrupt("spatial value", -1, "%v", err)
			}
			return v, nil
		},
	}
}

// sridText is what follows a spatial type's name in a definition; empty if any SRID will do.
func sridText(t sql.Type) string {
	if s, ok := t.(sql.SpatialColumnType); ok {
		if srid, defined := s.GetSpatialTypeSRID(); defined {
			return " srid " + strconv.FormatUint(uint64(srid), 10)
		}
	}
	return ""
}
