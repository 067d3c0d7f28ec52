package table

import (
	"maps"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lancesql/lance/pb"
)

// marshal is deterministic, so that equal versions are equal bytes.
func marshal(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// shallowCopy copies the fields of m, unknown ones included, sharing sub-messages. Callers replace whole fields of
// the copy and never write through them, because the original belongs to an immutable version.
func shallowCopy[M proto.Message](m M) M {
	from := m.ProtoReflect()
	to := from.New()
	from.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(fd, v)
		return true
	})
	to.SetUnknown(from.GetUnknown())
	return to.Interface().(M)
}

func unknownOf(m proto.Message) []byte {
	if u := m.ProtoReflect().GetUnknown(); len(u) > 0 {
		return append([]byte(nil), u...)
	}
	return nil
}

func setUnknown(m proto.Message, u []byte) {
	if len(u) > 0 {
		m.ProtoReflect().SetUnknown(u)
	}
}

func uuidProto(id uuid.UUID) *pb.UUID { return &pb.UUID{Uuid: append([]byte(nil), id[:]...)} }

// cloneMap copies m; an empty map becomes nil.
func cloneMap[V any](m map[string]V) map[string]V {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}
