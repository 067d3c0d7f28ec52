package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/apd/v3"
	gms "github.com/dolthub/go-mysql-server/enginetest"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// checkWire compares rows of a client with those that a suite expects: values, number and order of rows, names of columns.
func checkWire(t *testing.T, expected []sql.Row, expectedCols []*sql.Column, sch sql.Schema, actual []sql.Row, query string) {
	t.Helper()
	upper := strings.ToUpper(query)
	times := !strings.HasPrefix(upper, "SHOW ") || strings.Contains(upper, "EVENTS") // others show when something was made
	if isOK(sch) && !isOKRows(expected) {
		for _, row := range expected {
			if len(row) > 0 {
				t.Fatalf("rows expected, got an OK: %v", expected)
				return
			}
		}
		return
	}
	if isOKRows(expected) && len(actual) == 0 && len(sch) > 0 && !isOK(sch) {
		t.Fatalf("an OK expected, got rows")
		return
	}
	if len(expected) != len(actual) {
		t.Fatalf("%d rows expected, got %d\nexpected: %v\nactual  : %v", len(expected), len(actual), expected, showRows(actual))
		return
	}
	for i, c := range expectedCols {
		if i < len(sch) && c.Name != sch[i].Name {
			t.Fatalf("column %d is named %q, expected %q", i+1, sch[i].Name, c.Name)
		}
	}
	if strings.Contains(upper, "ORDER BY ") || len(expected) <= 1 {
		for i := range expected {
			if why := differs(expected[i], actual[i], sch, times); why != "" {
				t.Fatalf("row %d: %s\nexpected: %v\nactual  : %v", i+1, why, expected[i], showRows(actual[i:i+1]))
				return
			}
		}
		return
	}
	taken := make([]bool, len(actual))
next:
	for i, row := range expected {
		why := ""
		for j := range actual {
			if taken[j] {
				continue
			}
			d := differs(row, actual[j], sch, times)
			if d == "" {
				taken[j] = true
				continue next
			}
			if why == "" || j == i {
				why = d
			}
		}
		t.Fatalf("row %d is missing (%s): %v\nactual: %v", i+1, why, row, showRows(actual))
		return
	}
}

func isOK(sch sql.Schema) bool { return types.IsOkResultSchema(sch) }

func isOKRows(rows []sql.Row) bool {
	return len(rows) == 1 && len(rows[0]) == 1 && types.IsOkResult(rows[0])
}

func showRows(rows []sql.Row) string {
	var b strings.Builder
	for _, row := range rows {
		for i, v := range row {
			if raw, ok := v.([]byte); ok {
				v = string(raw)
			}
			if i > 0 {
				b.WriteByte(' ')
			}
			fmt.Fprintf(&b, "%T:%v", v, v)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// differs says in what two rows differ; empty if in nothing.
func differs(expected, actual sql.Row, sch sql.Schema, times bool) string {
	if len(expected) != len(actual) {
		return fmt.Sprintf("%d columns instead of %d", len(actual), len(expected))
	}
	for i := range expected {
		kind := ""
		if i < len(sch) {
			kind = sch[i].Extra
		}
		if !sameValue(expected[i], actual[i], kind, times) {
			return fmt.Sprintf("column %d (%s) is %v, expected %T %v", i+1, kind, text(actual[i]), expected[i], expected[i])
		}
	}
	return ""
}

// text is a client's value as text.
func text(v any) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}

// sameValue compares the value a suite expects with what the driver read from a column of the MySQL type named kind.
func sameValue(expected, actual any, kind string, times bool) bool {
	if w, ok := expected.(sql.AnyWrapper); ok {
		if v, err := sql.UnwrapAny(context.Background(), w); err == nil {
			expected = v
		}
	}
	if custom, ok := expected.(gms.CustomValueValidator); ok {
		if raw, isRaw := actual.([]byte); isRaw {
			actual = string(raw)
		}
		good, err := custom.Validate(actual)
		return err == nil && good
	}
	if expected == nil || actual == nil {
		return expected == nil && actual == nil
	}
	got := text(actual)
	switch want := expected.(type) {
	case types.OkResult:
		ok, is := actual.(types.OkResult)
		return is && ok.RowsAffected == want.RowsAffected && ok.InsertID == want.InsertID
	case bool:
		return got == map[bool]string{false: "0", true: "1"}[want]
	case float32:
		f, err := strconv.ParseFloat(got, 32)
		return err == nil && float32(f) == want
	case float64:
		return sameFloat(want, got, kind)
	case *apd.Decimal:
		return got == want.Text('f')
	case time.Time:
		return !times || sameTime(want, got, kind)
	case types.Timespan:
		v, _, err := types.Time.Convert(context.Background(), got)
		return err == nil && v == want
	case []byte:
		return got == string(want)
	case sql.JSONWrapper:
		doc, err := want.ToInterface(context.Background())
		_, statistic := want.(sql.Statistic)
		return err == nil && sameJSON(doc, got, statistic)
	case string:
		if kind == "JSON" {
			var doc any
			return json.Unmarshal([]byte(want), &doc) == nil && sameJSON(doc, got, false)
		}
		return got == want
	case types.GeometryValue:
		v, _, err := types.GeometryType{}.Convert(context.Background(), []byte(got))
		return err == nil && reflect.DeepEqual(v, expected)
	}
	v := reflect.ValueOf(expected)
	switch {
	case kind == "BIT":
		raw, _ := actual.([]byte)
		n := uint64(0)
		for _, b := range raw {
			n = n<<8 | uint64(b)
		}
		return fmt.Sprint(n) == fmt.Sprint(expected)
	case v.CanInt():
		return sameNumber(strconv.FormatInt(v.Int(), 10), got)
	case v.CanUint():
		return sameNumber(strconv.FormatUint(v.Uint(), 10), got)
	}
	return got == fmt.Sprint(expected)
}

// sameNumber compares whole numbers; a type with digits after the point may stand for one.
func sameNumber(want, got string) bool {
	if want == got {
		return true
	}
	a, _, err := apd.NewFromString(want)
	b, _, err2 := apd.NewFromString(got)
	return err == nil && err2 == nil && a.Cmp(b) == 0
}

func sameFloat(want float64, got, kind string) bool {
	f, err := strconv.ParseFloat(got, 64)
	if err != nil {
		return false
	}
	switch kind {
	case "FLOAT":
		return float32(f) == float32(want)
	case "DECIMAL": // exact digits of what the frontend computes as DOUBLE (I4)
		_, digits, _ := strings.Cut(got, ".")
		return strings.TrimPrefix(strconv.FormatFloat(want, 'f', len(digits), 64), "-") == strings.TrimPrefix(got, "-")
	}
	return f == want
}

func sameTime(want time.Time, got, kind string) bool {
	want = want.UTC()
	if kind == "TIME" { // the frontend gives some a day
		v, _, err := types.Time.Convert(context.Background(), got)
		clock := want.Sub(time.Date(want.Year(), want.Month(), want.Day(), 0, 0, 0, 0, time.UTC))
		return err == nil && v == types.Timespan(clock.Microseconds())
	}
	if want.Equal(types.ZeroTime) || want.IsZero() {
		return strings.Trim(got, "0-:. ") == ""
	}
	layout := "2006-01-02 15:04:05"
	if kind == "DATE" {
		layout = "2006-01-02"
	}
	if _, digits, ok := strings.Cut(got, "."); ok {
		layout += "." + strings.Repeat("0", len(digits))
	}
	at, err := time.Parse(layout, got)
	return err == nil && at.Equal(want)
}

// withoutEmpty takes the lists out of buckets of a histogram that are empty, or nil in the frontend's memory.
func withoutEmpty(buckets any) {
	list, _ := buckets.([]any)
	for _, b := range list {
		fields, _ := b.(map[string]any)
		for name, v := range fields {
			if l, ok := v.([]any); v == nil || ok && len(l) == 0 {
				delete(fields, name)
			}
		}
	}
}

// sameJSON compares a document with one as text. When a statistic was made is left out.
func sameJSON(want any, got string, statistic bool) bool {
	raw, err := json.Marshal(want)
	if err != nil {
		return false
	}
	var a, b any
	if json.Unmarshal(raw, &a) != nil || json.Unmarshal([]byte(got), &b) != nil {
		return false
	}
	if statistic {
		for _, doc := range []any{a, b} {
			if top, ok := doc.(map[string]any); ok {
				if inner, ok := top["statistic"].(map[string]any); ok {
					delete(inner, "created_at")
					withoutEmpty(inner["buckets"])
				}
			}
		}
	}
	return reflect.DeepEqual(a, b)
}
