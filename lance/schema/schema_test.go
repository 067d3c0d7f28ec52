package schema_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
	"lancesql/lance/schema"
)

func everyType() map[string]arrow.DataType {
	i32 := arrow.PrimitiveTypes.Int32
	return map[string]arrow.DataType{
		"null": arrow.Null, "bool": arrow.FixedWidthTypes.Boolean, "int32": i32, "uint64": arrow.PrimitiveTypes.Uint64,
		"halffloat": arrow.FixedWidthTypes.Float16, "double": arrow.PrimitiveTypes.Float64, "string": arrow.BinaryTypes.String,
		"large_binary": arrow.BinaryTypes.LargeBinary, "fixed_size_binary:16": &arrow.FixedSizeBinaryType{ByteWidth: 16},
		"decimal:128:38:-2": &arrow.Decimal128Type{Precision: 38, Scale: -2}, "decimal:256:60:5": &arrow.Decimal256Type{Precision: 60, Scale: 5},
		"date32:day": arrow.FixedWidthTypes.Date32, "date64:ms": arrow.FixedWidthTypes.Date64, "time32:s": arrow.FixedWidthTypes.Time32s,
		"time64:ns": arrow.FixedWidthTypes.Time64ns, "timestamp:us:-": &arrow.TimestampType{Unit: arrow.Microsecond},
		"timestamp:ms:America/New_York": &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "America/New_York"},
		"duration:us":                   arrow.FixedWidthTypes.Duration_us, "list": arrow.ListOf(i32), "large_list": arrow.LargeListOf(i32),
		"list.struct": arrow.ListOf(arrow.StructOf(arrow.Field{Name: "p", Type: i32})),
		"fixed_size_list:fixed_size_list:float:3:2": arrow.FixedSizeListOf(2, arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32)),
		"fixed_size_list:timestamp:us:UTC:4":        arrow.FixedSizeListOf(4, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}),
		"struct":                                    arrow.StructOf(arrow.Field{Name: "a", Type: i32}, arrow.Field{Name: "b", Type: arrow.ListOf(i32)}),
		"map":                                       arrow.MapOf(arrow.BinaryTypes.String, i32),
		"dict:string:int16:false":                   &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.BinaryTypes.String},
		"dict:timestamp:us:-:int8:false":            &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: &arrow.TimestampType{Unit: arrow.Microsecond}},
	}
}

func TestLogicalTypesBothWays(t *testing.T) {
	for want, dt := range everyType() {
		md := arrow.NewMetadata([]string{"k"}, []string{"v"})
		in := arrow.NewSchema([]arrow.Field{{Name: "c", Type: dt, Nullable: true, Metadata: md}}, &md)
		s, err := schema.FromArrow(in)
		require.NoError(t, err, want)
		require.Equal(t, want, s.Fields[0].LogicalType)
		s, err = schema.FromProto(s.ToProto(), map[string][]byte{"k": []byte("v")})
		require.NoError(t, err, want)
		out, err := s.Arrow()
		require.NoError(t, err, want)
		require.True(t, in.Equal(out), "%s: %s, want %s", want, out, in)
		require.Equal(t, in.Metadata(), out.Metadata())
	}
}

func TestIdsAndLeaves(t *testing.T) {
	i32 := arrow.PrimitiveTypes.Int32
	s, err := schema.FromArrow(arrow.NewSchema([]arrow.Field{
		{Name: "s", Type: arrow.StructOf(arrow.Field{Name: "a", Type: i32}, arrow.Field{Name: "l", Type: arrow.ListOf(i32)})},
		{Name: "m", Type: arrow.MapOf(i32, i32)}, {Name: "v", Type: arrow.FixedSizeListOf(3, i32)}}, nil))
	require.NoError(t, err)
	ids := func(fields []*schema.Field) (out []int32) {
		for _, f := range fields {
			out = append(out, f.ID)
		}
		return out
	}
	require.Equal(t, []int32{1, 3, 6, 7, 8}, ids(s.Leaves(nil)))
	require.Equal(t, []int32{1, 3}, ids(s.Leaves(s.Fields[0])))
	require.EqualValues(t, 8, s.MaxID())
	require.Equal(t, "value", s.FieldByID(7).Name)
	require.Nil(t, s.FieldByID(99))
	require.Nil(t, s.FieldByName("nope"))
}

func keyField(name string, kv ...string) arrow.Field {
	var keys, values []string
	for i := 0; i < len(kv); i += 2 {
		keys, values = append(keys, kv[i]), append(values, kv[i+1])
	}
	return arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int32, Metadata: arrow.NewMetadata(keys, values)}
}

func TestPrimaryKey(t *testing.T) {
	s, err := schema.FromArrow(arrow.NewSchema([]arrow.Field{keyField("a", schema.KeyPrimaryKey, "YES"),
		keyField("b", schema.KeyPrimaryKeyPosition, "2"), keyField("c"), keyField("d", schema.KeyPrimaryKeyPosition, "1")}, nil))
	require.NoError(t, err)
	names := func(s *schema.Schema) (out []string) {
		for _, f := range s.PrimaryKey() {
			out = append(out, f.Name)
		}
		return out
	}
	require.Equal(t, []string{"d", "b", "a"}, names(s))
	fields := s.ToProto()
	require.True(t, fields[1].UnenforcedPrimaryKey)
	require.EqualValues(t, 2, fields[1].UnenforcedPrimaryKeyPosition)
	require.True(t, fields[0].UnenforcedPrimaryKey)
	require.EqualValues(t, 0, fields[0].UnenforcedPrimaryKeyPosition)
	require.EqualValues(t, -1, fields[0].ParentId)

	for _, f := range fields { // marks in protobuf alone are enough
		f.Metadata = nil
	}
	s, err = schema.FromProto(fields, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"d", "b", "a"}, names(s))
	require.Equal(t, "2", s.Fields[1].Metadata[schema.KeyPrimaryKeyPosition])

	for _, bad := range []string{"0", "-1", "x", ""} {
		_, err = schema.FromArrow(arrow.NewSchema([]arrow.Field{keyField("a", schema.KeyPrimaryKeyPosition, bad)}, nil))
		require.ErrorIs(t, err, errs.ErrInvalid, bad)
	}
	_, err = schema.FromArrow(arrow.NewSchema([]arrow.Field{keyField("a", schema.KeyPrimaryKeyPosition, "1"), keyField("b", schema.KeyPrimaryKeyPosition, "1")}, nil))
	require.ErrorIs(t, err, errs.ErrInvalid)
}

func TestRefusals(t *testing.T) {
	i32 := arrow.PrimitiveTypes.Int32
	_, err := schema.FromArrow(arrow.NewSchema([]arrow.Field{{Name: "a", Type: i32}, {Name: "a", Type: i32}}, nil))
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = schema.FromArrow(arrow.NewSchema([]arrow.Field{{Name: "a", Type: &arrow.TimestampType{TimeZone: "+05:30"}}}, nil))
	require.ErrorIs(t, err, errs.ErrUnsupported)
	_, err = schema.FromArrow(arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.BinaryTypes.StringView}}, nil))
	require.ErrorIs(t, err, errs.ErrUnsupported)
	for _, fields := range [][]*pb.Field{
		{{Name: "a", Id: 1, ParentId: 7}}, {{Name: "a", Id: 1, ParentId: -1}, {Name: "b", Id: 1, ParentId: -1}},
		{{Name: "a", Id: -3, ParentId: -1}}, {{Name: "a", Id: 1, ParentId: 1}}} {
		_, err = schema.FromProto(fields, nil)
		require.ErrorIs(t, err, errs.ErrInvalid)
	}
	for _, bad := range []string{"", "int33", "decimal:128:0:0", "decimal:128:39:0", "decimal:64:3:0", "decimal:128:3", "timestamp:us",
		"timestamp:xx:-", "fixed_size_binary:0", "fixed_size_binary:-1", "fixed_size_binary:99999999999", "fixed_size_list:float:0",
		"fixed_size_list:string:3", "fixed_size_list:", "dict:string", "dict:string:string:false", "list"} {
		_, err := schema.ParseLogicalType(bad)
		require.Error(t, err, bad)
	}
}

func TestUnknownProtobufFieldsAreKept(t *testing.T) {
	raw, err := proto.Marshal(&pb.Field{Name: "a", Id: 4, ParentId: -1, LogicalType: "int32"})
	require.NoError(t, err)
	raw = append(raw, 0xfa, 0x06, 0x01, 'x') // field 111, bytes
	var f pb.Field
	require.NoError(t, proto.Unmarshal(raw, &f))
	s, err := schema.FromProto([]*pb.Field{&f}, nil)
	require.NoError(t, err)
	require.Equal(t, f.ProtoReflect().GetUnknown(), s.ToProto()[0].ProtoReflect().GetUnknown())
}

// TestBlobMembers: in a data file the members of a blob v2 column have neither id nor parent.
func TestBlobMembers(t *testing.T) {
	blob := &pb.Field{Name: "b", Id: 1, ParentId: -1, LogicalType: "struct", Metadata: map[string][]byte{schema.KeyBlob: []byte("true")}}
	member := func(name string) *pb.Field { return &pb.Field{Name: name, Id: -1, ParentId: -1, LogicalType: "uint8"} }
	last := &pb.Field{Name: "z", Id: 2, ParentId: -1, LogicalType: "int32"}
	s, err := schema.FromProto([]*pb.Field{blob, member("kind"), member("size"), last}, nil)
	require.NoError(t, err)
	require.Len(t, s.Fields, 2)
	require.Len(t, s.Fields[0].Children, 2)
	require.True(t, s.Fields[0].BlobV2())
	typ, err := s.Fields[0].DataType()
	require.NoError(t, err)
	require.True(t, arrow.TypeEqual(schema.BlobDescriptor(), typ))
	for _, bad := range [][]*pb.Field{{last, member("kind")}, {member("kind")}, {blob, last, member("a")}} {
		_, err = schema.FromProto(bad, nil)
		require.ErrorIs(t, err, errs.ErrInvalid)
	}
}

func FuzzParseLogicalType(f *testing.F) {
	for name := range everyType() {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, s string) {
		dt, err := schema.ParseLogicalType(s)
		if err != nil {
			return
		}
		if _, err := schema.LogicalType(dt); err != nil {
			t.Fatalf("%q parses as %s, which has no logical type: %v", s, dt, err)
		}
	})
}

func ExampleFromArrow() {
	s, _ := schema.FromArrow(arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true}}, nil))
	s.Walk(func(f *schema.Field) { fmt.Println(f.ID, f.Name, f.LogicalType, f.OwnsColumn()) })
	// Output:
	// 0 id int64 true
	// 1 tags list false
	// 2 item string true
}
