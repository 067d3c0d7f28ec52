package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// JSON_VALUE(doc, path RETURNING type … ON EMPTY … ON ERROR), which the frontend's grammar knows without what follows the
// path. textRewriter makes it jsonValueName(doc, path, 'type', 'kind', value, 'kind', value), where a kind is what is to be
// done without a value, or with one that has no place in the type: null, error, or default.

const jsonValueName = "lancesql json value"

// jsonValue rewrites the call at token i.
func (r *textRewriter) jsonValue(i int) {
	end := r.match[i+1]
	if end < 0 {
		return
	}
	from, first := -1, -1 // RETURNING or the first clause; the first clause
	empty, failed := "'null', NULL", "'null', NULL"
	depth := 0
	for j := i + 2; j < end; j++ {
		switch {
		case r.list[j].kind == '(':
			depth++
		case r.list[j].kind == ')':
			depth--
		case depth > 0:
		case from < 0 && r.word(j, "returning"):
			from = j
		case r.word(j, "on") && r.word(j+1, "empty", "error"):
			start, kind := j-1, ""
			switch {
			case r.word(start, "null"):
				kind = "'null', NULL"
			case r.word(start, "error"):
				kind = "'error', NULL"
			default:
				for start > i && !r.word(start, "default") {
					start--
				}
				kind = "'default'," + part(r.query, r.list[start].to, r.list[j-1].to)
			}
			if start <= i+2 {
				return
			}
			if first < 0 {
				first = start
			}
			if r.word(j+1, "empty") {
				empty = kind
			} else {
				failed = kind
			}
		}
	}
	typ, cut := "char(512)", first
	if from >= 0 {
		last := end
		if first >= 0 {
			last = first
		}
		typ, cut = strings.TrimSpace(part(r.query, r.list[from].to, r.list[last-1].to)), from
	}
	if cut < 0 || strings.ContainsAny(typ, "'\\") {
		return
	}
	r.edit(r.start(i), r.list[i].to, "`"+jsonValueName+"`")
	r.edit(r.start(cut), r.list[end-1].to, ", '"+typ+"', "+empty+", "+failed)
}

// newJSONValue makes the function of such a call.
func newJSONValue(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
	const arity = 7
	if len(args) != arity {
		return nil, sql.ErrInvalidArgumentNumber.New("json_value", 2, len(args))
	}
	typ, err := returnedType(ctx, literalText(args[2]))
	if err != nil {
		return nil, err
	}
	return &operator{name: jsonValueName, args: args, typ: ofType(typ), eval: func(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
		return jsonValue(ctx, row, args, typ)
	}}, nil
}

// returnedType reads the type behind RETURNING.
func returnedType(ctx *sql.Context, text string) (sql.Type, error) {
	text = strings.ToLower(text)
	word, rest, _ := strings.Cut(strings.ReplaceAll(text, "(", " ("), " ")
	switch word {
	case "signed":
		return types.Int64, nil
	case "unsigned":
		return types.Uint64, nil
	case "char":
		if !strings.HasPrefix(strings.TrimSpace(rest), "(") {
			return types.LongText, nil
		}
		text = "var" + text
	case "time":
		digits := 0
		for _, c := range rest {
			if c >= '0' && c <= '9' {
				digits = int(c - '0')
			}
		}
		return newTimeType(digits), nil
	case "float", "double", "decimal", "date", "datetime", "year", "json":
	default:
		return nil, sql.ErrUnsupportedFeature.New("JSON_VALUE of type " + text)
	}
	t, err := planbuilder.ParseColumnTypeString(ctx, text)
	if err != nil {
		return nil, sql.ErrSyntaxError.New(err.Error())
	}
	return t, nil
}

func jsonValue(ctx *sql.Context, row sql.Row, args []sql.Expression, typ sql.Type) (any, error) {
	doc, err := args[0].Eval(ctx, row)
	if err != nil || doc == nil {
		return nil, err
	}
	path, err := args[1].Eval(ctx, row)
	if err != nil || path == nil {
		return nil, err
	}
	if doc, _, err = types.JSON.Convert(ctx, doc); err != nil {
		return nil, newError(3141, "Invalid JSON text in argument 1 to function json_value.")
	}
	text, _, err := sql.Unwrap[string](ctx, path)
	if err != nil {
		return nil, err
	}
	json, ok := doc.(sql.JSONWrapper)
	if !ok {
		return nil, newError(3146, "Invalid data type for JSON data in argument 1 to function json_value; a JSON string or JSON type is required.")
	}
	found, err := types.LookupJSONValue(ctx, json, text)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return otherwise(ctx, row, args[3:5], typ, newError(3966, "No value was found by 'json_value' on the specified path."))
	}
	v, err := found.ToInterface(ctx)
	if err != nil || v == nil {
		return nil, err
	}
	out, ok := jsonAs(ctx, v, found, typ)
	if !ok {
		return otherwise(ctx, row, args[5:7], typ, newError(3156, "Invalid JSON value for CAST to %s from column json_value at row 1", typ))
	}
	return out, nil
}

// otherwise is what a call without a value has in its place.
func otherwise(ctx *sql.Context, row sql.Row, clause []sql.Expression, typ sql.Type, failed error) (any, error) {
	switch literalText(clause[0]) {
	case "error":
		return nil, failed
	case "default":
		v, err := clause[1].Eval(ctx, row)
		if err != nil || v == nil {
			return nil, err
		}
		out, _, err := typ.Convert(ctx, v)
		return out, err
	}
	return nil, nil
}

// jsonAs converts a JSON value; false if it has no place in the type.
func jsonAs(ctx *sql.Context, v any, doc sql.JSONWrapper, typ sql.Type) (any, bool) {
	if types.IsJSON(typ) {
		return doc, true
	}
	switch t := v.(type) {
	case types.JsonArray, types.JsonObject:
		return nil, false
	case bool:
		if types.IsTextOnly(typ) {
			v = "false"
			if t {
				v = "true"
			}
		} else if v = int64(0); t {
			v = int64(1)
		}
	case string:
		if sql.IsNumberType(typ) && !isNumeral(t) {
			return nil, false
		}
	}
	if st, ok := typ.(sql.StringType); ok {
		text, _, err := types.LongText.Convert(ctx, v)
		s, isText := text.(string)
		if err != nil || !isText || int64(len([]rune(s))) > st.MaxCharacterLength() {
			return nil, false
		}
		return s, true
	}
	var out any
	var in sql.ConvertInRange
	var err error
	if rt, ok := typ.(sql.RoundingNumberType); ok {
		out, in, err = rt.ConvertRound(quiet(ctx), v)
	} else {
		out, in, err = typ.Convert(quiet(ctx), v)
	}
	return out, err == nil && in == sql.InRange && out != nil
}

// isNumeral reports whether a text is a number.
func isNumeral(s string) bool {
	d, err := toDecimal(strings.TrimSpace(s))
	return err == nil && d != nil && strings.ContainsAny(s, "0123456789")
}
